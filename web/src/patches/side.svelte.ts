// A model with the image that it was sent, and what it answered.
import type { Weights } from '../model/safetensors'
import { hasAllQueries, lookAt, mapsAt, oneAtATime, relevanceOf, type Look, type Pixel } from './look'

export class Side {
  id = $state('')
  look = $state.raw<Look | null>(null)
  failure = $state('')
  busy = $state(false)
  relevance = $state.raw<{ label: string; values: Float64Array } | null>(null) // for a class that was chosen
  private moved = $state.raw<{ at: Pixel; arrays: Weights } | null>(null)
  private image: Blob | null = null
  private looks = oneAtATime()
  private moves = oneAtATime()

  constructor(readonly name: string) {}

  /** Sends an image to a model. Of the images that come while one is computed, the last is sent. */
  open(id: string, image: Blob | null): void {
    if (this.look && this.look.id !== id) this.put(null)
    this.id = id
    this.image = image
    this.failure = ''
    this.busy = Boolean(id && image)
    if (!id || !image) return
    const isCurrent = () => this.id === id && this.image === image
    this.looks(async () => {
      try {
        const found = await lookAt(id, image)
        if (this.id !== id) return
        this.put(found)
        if (isCurrent()) this.busy = false
      } catch (error) {
        if (!isCurrent()) return
        this.busy = false
        this.failure = (error as Error).message
        this.put(null)
      }
    })
  }

  private put(look: Look | null): void {
    this.look = look
    this.moved = this.relevance = null
  }

  /** Asks for the maps of a query if they are not there yet. */
  move(at: Pixel | null): void {
    const [look, image] = [this.look, this.image]
    if (!look || !image || !at || hasAllQueries(look) || !look.about.layers.length) return
    this.moves(async () => {
      if (this.look !== look) return
      try {
        const arrays = await mapsAt(look.id, image, at)
        if (this.look === look) this.moved = { at, arrays }
      } catch (error) {
        this.failure = (error as Error).message
      }
    })
  }

  /** Asks for the relevance for a class; of an unknown one it is that for the predicted class. */
  async relate(label: string): Promise<void> {
    const [look, image] = [this.look, this.image]
    const number = look?.about.labels.indexOf(label) ?? -1
    this.relevance = null
    if (!look || !image || number < 0 || !look.about.layers.length) return
    try {
      const values = await relevanceOf(look.id, image, number)
      if (this.look === look) this.relevance = { label, values }
    } catch (error) {
      this.failure = (error as Error).message
    }
  }

  /** The query that can be shown now, and the maps that belong to it. */
  shown(query: Pixel | null): { query: Pixel | null; maps: Weights | null } {
    if (!query || !this.look || hasAllQueries(this.look)) return { query, maps: null }
    return { query: this.moved?.at ?? null, maps: this.moved?.arrays ?? null }
  }
}
