// The attention of a model over one image, as the server sends it, and the maps in it.
import { readAbout, readSafetensors, type Weights } from '../model/safetensors'
import { getJson, post } from '../server'

export interface LayerShape {
  number: number
  stage: number
  heads: number
  rows: number
  columns: number
  cell: [number, number]
  fromToken: boolean // has a [CLS], which is the query by default
}

export interface About {
  model: string
  labels: string[]
  top: [string, number][]
  layers: LayerShape[]
  cell?: [number, number] // of the rollout and the relevance
  reason?: string // why there is no attention
  relevance?: string
}

/** A pixel of the image that the model reads. */
export interface Pixel {
  x: number
  y: number
}

export interface Look {
  id: string
  about: About
  image: [number, number, number] // channels, height, width
  arrays: Weights
}

export interface Values {
  rows: number
  columns: number
  cell: [number, number]
  values: Float64Array
}

export interface Samples {
  id: string
  labels: string[]
}

const address = (id: string) => `/api/look/${encodeURIComponent(id)}`
export const sampleAddress = (id: string, number: number) => `${address(id)}/samples/${number}`
export const samplesOf = (id: string, signal?: AbortSignal) => getJson<Samples>(`${address(id)}/samples`, signal)

export async function lookAt(id: string, image: Blob, signal?: AbortSignal): Promise<Look> {
  const bytes = await (await post(address(id), image, signal)).arrayBuffer()
  const arrays = readSafetensors(bytes)
  return { id, about: readAbout<About>(bytes), image: arrays.pixels.shape as [number, number, number], arrays }
}

/** The maps and the rollout of one query, of a model that is too large to send those of all queries. */
export async function mapsAt(id: string, image: Blob, at: Pixel, signal?: AbortSignal): Promise<Weights> {
  return readSafetensors(await (await post(`${address(id)}?x=${at.x}&y=${at.y}`, image, signal)).arrayBuffer())
}

export async function relevanceOf(id: string, image: Blob, label: number, signal?: AbortSignal): Promise<Float64Array> {
  return readSafetensors(await (await post(`${address(id)}?class=${label}`, image, signal)).arrayBuffer()).relevance.values
}

export const hasAllQueries = (look: Look) => look.arrays.rollouts !== undefined

/** The patch of a grid that contains a pixel. */
export function patchAt(shape: { rows: number; columns: number; cell: [number, number] }, at: Pixel): { row: number; column: number } {
  return { row: Math.min(Math.floor(at.y / shape.cell[0]), shape.rows - 1), column: Math.min(Math.floor(at.x / shape.cell[1]), shape.columns - 1) }
}

/** The pixel in the middle of a patch. */
export function middleOf(shape: { cell: [number, number] }, row: number, column: number): Pixel {
  return { x: Math.floor((column + 0.5) * shape.cell[1]), y: Math.floor((row + 0.5) * shape.cell[0]) }
}

/** The same place in the image of another model, which may have another size. */
export function scaled(at: Pixel, from: Look, to: Look): Pixel {
  const place = (value: number, axis: 1 | 2) => Math.min(Math.floor(((value + 0.5) * to.image[axis]) / from.image[axis]), to.image[axis] - 1)
  return { x: place(at.x, 2), y: place(at.y, 1) }
}

/** One row of (queries, keys), or the mean of all rows if there is no query and no [CLS]. */
function rowOf(values: Float64Array, keys: number, query: number | null): Float64Array {
  if (query !== null) return values.subarray(query * keys, (query + 1) * keys)
  const mean = new Float64Array(keys)
  const queries = values.length / keys
  values.forEach((value, index) => (mean[index % keys] += value / queries))
  return mean
}

function queryOf(shape: LayerShape, prefix: number, at: Pixel | null): number | null {
  if (at === null) return prefix > 0 ? 0 : null
  const { row, column } = patchAt(shape, at)
  return prefix + row * shape.columns + column
}

/** The maps of all heads of a layer. moved: the maps of the query, if those of all queries are not there. */
export function headMaps(look: Look, shape: LayerShape, at: Pixel | null, moved: Weights | null): Float64Array[] | null {
  const size = shape.rows * shape.columns
  const heads = Array.from({ length: shape.heads }, (_, head) => head)
  const all = look.arrays[`weights.${shape.number}`]
  if (all) {
    const [, queries, keys] = all.shape
    const query = queryOf(shape, keys - size, at)
    return heads.map((head) => rowOf(all.values.subarray(head * queries * keys, (head + 1) * queries * keys), keys, query).subarray(keys - size))
  }
  const maps = (at === null ? look.arrays : moved)?.[`maps.${shape.number}`]
  return maps ? heads.map((head) => maps.values.subarray(head * size, (head + 1) * size)) : null
}

export function meanMap(maps: Float64Array[]): Float64Array {
  return maps[0].map((_, index) => maps.reduce((sum, one) => sum + one[index], 0) / maps.length)
}

export function rolloutMap(look: Look, at: Pixel | null, moved: Weights | null): Values | null {
  const [rows, columns] = look.arrays.rollout.shape
  const cell = look.about.cell!
  const last = look.about.layers[look.about.layers.length - 1]
  const all = look.arrays.rollouts
  if (!all) {
    const found = (at === null ? look.arrays : moved)?.rollout
    return found ? { rows, columns, cell, values: found.values } : null
  }
  const prefix = all.shape[0] - last.rows * last.columns
  return { rows, columns, cell, values: rowOf(all.values, rows * columns, queryOf(last, prefix, at)) }
}

/** The patches by weight, the strongest first. */
export function strongest({ values, columns }: Values, count: number): { row: number; column: number; weight: number }[] {
  const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a])
  return order.slice(0, count).map((index) => ({ row: Math.floor(index / columns), column: index % columns, weight: values[index] }))
}

/** Runs one piece of work at a time; of what is asked for meanwhile, only the last. */
export function oneAtATime(): (work: () => Promise<void>) => void {
  let running = false
  let next: (() => Promise<void>) | null = null
  return function ask(work): void {
    if (running) {
      next = work
      return
    }
    running = true
    void work().finally(() => {
      running = false
      const waiting = next
      next = null
      if (waiting) ask(waiting)
    })
  }
}
