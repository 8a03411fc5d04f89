// The answer of /api/windows for a model of texts, and what follows from its pairs: keys, and receptive fields.
import { thousands } from '../../figures/scale'
import { WORDS } from '../../words/windows'
import type { Answer, Place } from '../patterns'

export interface TextPattern {
  description: string
  layers: number[]
  heads: number[]
  pairs: number
  computed_pairs: number
  all_pairs: number
  density: number
  pair_kinds: string // a digit per pair, row after row
}

export interface Layer {
  patterns: number[]
  attention_macs: number
  global_macs: number
}

export interface Part {
  name: 'encoder' | 'decoder' | 'memory'
  tokens: number
  keys: number
  unit: number // tokens per row and column
  rows: number
  columns: number
  layers: Layer[]
  patterns: TextPattern[]
}

export interface TextAnswer {
  model: string
  tokens: number
  lengths: number[]
  parts: Part[]
}

export const isTexts = (answer: Answer | TextAnswer): answer is TextAnswer => 'parts' in answer
export const [NONE, ATTENDS, GLOBAL, WINDOW, RANDOM] = [0, 1, 2, 3, 4]

const known = new WeakMap<TextPattern, Uint8Array>()
/** The kind of each pair, row after row. */
export function kindsOf(pattern: TextPattern): Uint8Array {
  let found = known.get(pattern)
  if (!found) known.set(pattern, (found = Uint8Array.from(pattern.pair_kinds, Number)))
  return found
}

/** The pattern of a head in a layer; heads and layers count from 1. */
export function patternOf(part: Part, layer: number, head: number): TextPattern {
  const own = part.layers[layer - 1].patterns.map((index) => part.patterns[index])
  return own.find((one) => one.heads.includes(head)) ?? own[0]
}
/** How many heads the user can choose among: those of a layer, if their patterns differ. */
export function headsOf(part: Part, layer: number): number {
  const own = part.layers[layer - 1].patterns
  return own.length > 1 ? own.reduce((sum, index) => sum + part.patterns[index].heads.length, 0) : 1
}

export function keysOf(part: Part, pattern: TextPattern, row: number): Uint8Array {
  return kindsOf(pattern).slice(row * part.columns, (row + 1) * part.columns).map((kind) => (kind ? 1 : 0))
}

/** Whether pairs of a query and a later key are computed and masked. */
export const isMasked = (part: Part, pattern: TextPattern) => part.unit === 1 && pattern.computed_pairs > pattern.pairs

/** The columns that a row depends on after 1, 2, … layers: a list of masks. */
export function textFields(part: Part, row: number): Uint8Array[] {
  const steps: Uint8Array[] = []
  for (let last = 0; last < part.layers.length; last++) {
    if (steps.at(-1)?.every((is) => is)) {
      steps.push(steps.at(-1)!)
      continue
    }
    let reached = new Uint8Array(part.rows).fill(1, row, row + 1)
    for (let layer = last; layer >= 0; layer--) {
      const next = reached.slice() // by the residual connection
      for (const index of part.layers[layer].patterns) {
        const kinds = kindsOf(part.patterns[index])
        reached.forEach((is, one) => {
          if (is) for (let key = 0; key < part.columns; key++) if (kinds[one * part.columns + key]) next[key] = 1
        })
      }
      reached = next
    }
    steps.push(reached)
  }
  return steps
}

/** The row of a part at a place, which is a fraction of the text. */
export const rowAt = (place: Place, part: Part) => Math.min(part.rows - 1, Math.floor(place.row * part.rows))
export const placeOfRow = (row: number, part: Part): Place => ({ row: (Math.min(row, part.rows - 1) + 0.5) / part.rows, column: 0.45, lead: -1 })

export const partName = (part: Part) => WORDS.parts[part.name]

/** "token 5", or "block 3 (tokens 129–192)". */
export function rowName(part: Part, row: number): string {
  if (part.unit === 1) return `token ${row + 1}`
  return `block ${row + 1} (tokens ${thousands(row * part.unit + 1)}–${thousands(Math.min(part.tokens, (row + 1) * part.unit))})`
}

/** Runs of columns from 1: "1–7, 10". */
export function runs(mask: Uint8Array): string {
  const found: string[] = []
  for (let column = 0; column < mask.length; column++) {
    if (!mask[column]) continue
    const start = column
    while (mask[column + 1]) column++
    found.push(start === column ? `${start + 1}` : `${start + 1}–${column + 1}`)
  }
  return found.join(', ')
}
