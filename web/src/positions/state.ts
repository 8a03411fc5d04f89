// The state of the page Positions, and its address.
import { PRESETS, SAMPLES } from './convolution'

export interface State {
  show: string
  length: number
  width: number
  base: number
  layout: string
  side: number
  position: number
  dimension: number
  model: string
  table: number // counted from 1
  pair: number
  m: number
  n: number
  kernel: number[]
  sample: string
  strength: number
}

const range = (first: number, last: number, step = 1) => Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, index) => first + index * step)
export const VALUES: Record<string, number[]> = {
  length: range(10, 200, 10),
  width: [8, 16, 32, 64, 96, 128, 192, 256],
  base: [2, 5, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 500_000],
  side: range(2, 16),
  strength: [0, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100, 200],
}

const USUAL: State = {
  show: 'sinusoid', length: 100, width: 64, base: 10_000, layout: 'interleaved', side: 8, position: 20, dimension: 10, model: '', table: 1,
  pair: 2, m: 12, n: 7, kernel: PRESETS['Vertical edges'], sample: 'T-shirt', strength: 200,
}
const FIELDS: Record<string, (keyof State)[]> = {
  sinusoid: ['length', 'width', 'base', 'layout', 'position', 'dimension'],
  patches: ['side', 'width', 'base', 'position', 'dimension'],
  learned: ['model', 'position', 'dimension'],
  relative: ['model', 'table', 'position'],
  rotary: ['length', 'width', 'base', 'pair', 'm', 'n'],
  convolution: ['kernel', 'sample', 'strength', 'position'],
}

/** What each encoding shows at first. */
export const STARTS: Record<string, State> = {
  sinusoid: USUAL,
  patches: { ...USUAL, show: 'patches', position: 27, dimension: 34 },
  learned: { ...USUAL, show: 'learned', model: 'vit-exercise', position: 17 },
  relative: { ...USUAL, show: 'relative', position: 16 },
  rotary: { ...USUAL, show: 'rotary', length: 60 },
  convolution: { ...USUAL, show: 'convolution', position: 60 },
}

export function readState(query: Record<string, string>): State {
  const usual = STARTS[query.show] ?? USUAL
  const state: Record<string, unknown> = { ...usual }
  for (const field of FIELDS[usual.show]) {
    const text = query[field]
    if (!text) continue
    if (field === 'kernel') {
      const weights = text.split(',').map(Number)
      if (weights.length === 9 && weights.every((one) => Math.abs(one) <= 5)) state.kernel = weights
    } else if (typeof usual[field] === 'number') {
      const value = Number(text)
      if (field in VALUES ? VALUES[field].includes(value) : Number.isInteger(value) && value >= 0) state[field] = value
    } else if (field === 'sample' ? text in SAMPLES : field !== 'layout' || ['interleaved', 'halves', 't2t'].includes(text)) state[field] = text
  }
  return state as unknown as State
}

export const stateOf = (state: State): Record<string, string | number> =>
  Object.fromEntries([['show', state.show], ...FIELDS[state.show].map((field) => [field, String(state[field])])])
