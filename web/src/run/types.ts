// What the routes of the page Runs answer.
export type Value = number | string | boolean

export interface Run {
  id: string
  name: string
  state: 'running' | 'finished' | 'stopped' | 'failed' | 'broken' | 'reading'
  position: string
  problem: string
  kind: string
  model: string
  epoch: number
  epochs: number
  metric: string
  validation: number | null
  score: number | null
  part: string
  seconds: number | null
  date: string
  holder: string
  job: string
}

export type Metric = Record<string, number | null>

export interface Step {
  step: number
  epoch: number
  loss?: number
  accuracy?: number
  learning_rate: number
  seconds: number
}

export interface Confusion {
  epoch: number
  counts: number[][]
}

export interface Mistake {
  index: number
  truth: string
  predicted: string
  confidence: number
  image: boolean
  text: string
}

export interface Detail {
  run: Run
  recipe: Record<string, Value | null | Value[]>
  metrics: Metric[]
  steps: Step[]
  metric: string
  evaluation: Record<string, unknown>
  classes: string[]
  confusion: Confusion[]
  test: number[][] | null
  mistakes: Mistake[] | null
}

export interface Job {
  id: string
  verb: string
  name: string
  about: Record<string, string>
  started: string
  state: 'running' | 'stopping' | 'finished' | 'stopped' | 'failed'
  code: number | null
  command: string
  output?: string
}

export interface Field {
  name: string
  group: string
  about: string
  default: Value
  type: 'choice' | 'switch' | 'integer' | 'number'
  choices?: Value[]
  limits: string
}

export interface Recipe {
  name: string
  task: string
  about: string
  needs: string
  time: string
  first: string[]
  fields: Field[]
}

export const MOST_CHOSEN = 8
// No id contains this: "~" in a name is written "~0".
const SEPARATOR = '~~'
export const joinIds = (ids: string[]) => ids.join(SEPARATOR)
export const splitIds = (text: string) => (text ? text.split(SEPARATOR).slice(0, MOST_CHOSEN) : [])

const COLORS = ['--c-linear-1', '--c-attention-1', '--c-ffn-1', '--c-other-1', '--c-more-1', '--bad', '--text', '--c-linear-2']
export const colorOf = (index: number) => `var(${COLORS[index % COLORS.length]})`
/** Each run also has a dash of its own: colours alone do not tell them apart. */
export const dashOf = (index: number, size: number) => ['', `${0.7 * size} ${0.35 * size}`, `${0.2 * size} ${0.3 * size}`, `${0.9 * size} ${0.3 * size} ${0.2 * size} ${0.3 * size}`][index % 4]
