// The state of the page Words, which is its address.
import type { WordModel } from './api'

export const TEXT = 'It was a cold winter night in the mountains.'
export const SENTENCES = [
  'He left the house in the morning.',
  'She left the room without a word.',
  'His left hand was in his pocket.',
  'On the left side stood a table.',
].join('\n')
export const VIEWS = ['attention', 'fill', 'similar', 'answers', 'walk'] as const
export type View = (typeof VIEWS)[number]

/** Which ability a view needs. */
export const NEEDS: Record<View, string[]> = {
  attention: ['attention'],
  fill: ['fill'],
  similar: ['similar'],
  answers: ['tags', 'answer', 'classes'],
  walk: ['walk'],
}

const whole = (text: string | undefined, other: number) => (text !== undefined && /^-?\d{1,4}$/.test(text) ? Number(text) : other)

export class WordsState {
  view = $state<View>('attention')
  text = $state(TEXT)
  models = $state.raw<WordModel[]>([])
  chosen = $state<Partial<Record<View, string>>>({})
  causal = $state('')
  shape = $state<'lines' | 'matrix'>('lines')
  special = $state(true)
  layer = $state(2)
  head = $state(1)
  query = $state(-1) // of the lines: -1 is all words
  mask = $state(5) // the word that is masked; -1 is none
  word = $state('left')
  sentences = $state(SENTENCES)
  similarLayer = $state(-1) // -1 is the last
  question = $state('')
  token = $state(6)
  walkLayer = $state(1)
  walkHead = $state(1)
  wait = 0 // ms before a question: typing goes on, buttons do not; no view depends on it

  fits(view: View): WordModel[] {
    return this.models.filter((one) => NEEDS[view].some((need) => one.can.includes(need)))
  }

  /** The model of a view: the chosen one, if it can show the view. */
  modelOf(view: View): WordModel | undefined {
    const fitting = this.fits(view)
    return fitting.find((one) => one.id === this.chosen[view]) ?? fitting.find((one) => one.id === 'bert-mini') ?? fitting[0]
  }

  get causalModel(): WordModel | undefined {
    const fitting = this.models.filter((one) => one.can.includes('next'))
    return fitting.find((one) => one.id === this.causal) ?? fitting[0]
  }

  read(query: Record<string, string>): void {
    this.view = VIEWS.includes(query.view as View) ? (query.view as View) : 'attention'
    this.text = query.text ?? TEXT
    this.chosen = query.model ? { [this.view]: query.model } : {}
    this.causal = query.causal ?? ''
    this.shape = query.shape === 'matrix' ? 'matrix' : 'lines'
    this.special = query.special !== 'hidden'
    const layer = whole(query.layer, 0)
    this.layer = this.view === 'attention' && layer ? layer : 2
    this.walkLayer = this.view === 'walk' && layer ? layer : 1
    this.similarLayer = this.view === 'similar' ? whole(query.layer, -1) : -1
    const head = whole(query.head, 1)
    this.head = this.walkHead = head
    this.query = whole(query.query, -1)
    this.mask = whole(query.mask, this.text === TEXT ? 5 : -1)
    this.word = query.word ?? 'left'
    this.sentences = query.sentences ?? SENTENCES
    this.question = query.question ?? ''
    this.token = whole(query.token, this.text === TEXT ? 6 : 1)
  }

  address(): Record<string, string | number> {
    const model = this.modelOf(this.view)?.id ?? ''
    const found: Record<string, string | number> = { view: this.view, model }
    if (this.view !== 'similar') found.text = this.text
    if (this.view === 'attention') {
      Object.assign(found, { shape: this.shape, layer: this.layer, head: this.head, query: this.query, special: this.special ? 'shown' : 'hidden' })
    } else if (this.view === 'fill') {
      Object.assign(found, { mask: this.mask, causal: this.causalModel?.id ?? '' })
    } else if (this.view === 'similar') {
      Object.assign(found, { word: this.word, layer: this.similarLayer, sentences: this.sentences })
    } else if (this.view === 'walk') {
      Object.assign(found, { token: this.token, layer: this.walkLayer, head: this.walkHead })
    } else if (this.question) found.question = this.question
    return found
  }
}
