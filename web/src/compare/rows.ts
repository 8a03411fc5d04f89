// The rows of the page Compare: filtered, sorted, and as a table to save.
import type { Table } from '../figures/save'

export interface Score {
  value: number
  note: string
  source: string
}
export interface Row {
  id: string
  label: string // in the figure, where the marker names the family
  model: string
  family: string
  paper: string
  year: number | null
  code: string
  backbone?: string
  input: string
  line: (string | number)[]
  usual: boolean
  parameters: number | null
  macs: number | null
  published: { parameters: number | null; macs: number | null; source: string }
  marks: { parameters?: string; MACs?: string }
  scores: Record<string, Score>
}
export interface Group {
  scores: string[]
  rows: Row[]
}
export type Groups = Record<string, Group>
export type Quantity = 'parameters' | 'macs'

const UNITS: Record<Quantity, number> = { parameters: 1e6, macs: 1e9 }
export const LETTERS: Record<Quantity, string> = { parameters: 'M', macs: 'G' }

/** The count; before a dense system is counted, the published figure. */
export const costOf = (row: Row, quantity: Quantity): number | null => row[quantity] ?? publishedOf(row, quantity)
export function publishedOf(row: Row, quantity: Quantity): number | null {
  const printed = row.published[quantity]
  return printed === null ? null : printed * UNITS[quantity]
}
/** Published over counted, minus one. */
export function differenceOf(row: Row, quantity: Quantity): number | null {
  const [printed, counted] = [publishedOf(row, quantity), row[quantity]]
  return printed === null || counted === null ? null : printed / counted - 1
}
export const markOf = (row: Row, quantity: Quantity): string => row.marks[quantity === 'macs' ? 'MACs' : 'parameters'] ?? ''

/** Three digits with the unit of the quantity: 28.3 M, 4.49 G. */
export function short(value: number | null, quantity: Quantity): string {
  if (value === null) return '–'
  const number = value / UNITS[quantity]
  const digits = number >= 100 ? 0 : number >= 10 ? 1 : number >= 0.1 ? 2 : 4
  return `${number.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${LETTERS[quantity]}`
}
export const signed = (share: number) => `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(1)} %`

export function filtered(rows: Row[], text: string, families: string[]): Row[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return rows.filter((row) => {
    if (families.length && !families.includes(row.family)) return false
    const place = [row.model, row.family, row.published.source, row.paper].join(' ').toLowerCase()
    return words.every((word) => place.includes(word))
  })
}

export const SORTS = ['model', 'family', 'year', 'input', 'parameters', 'publishedParameters', 'macs', 'publishedMacs', 'score', 'source'] as const
export type Sort = (typeof SORTS)[number]

function valueOf(row: Row, sort: Sort, score: string): string | number | null {
  switch (sort) {
    case 'score': return row.scores[score]?.value ?? null
    case 'input': return row.input.split(/\D+/).filter(Boolean).reduce((product, side) => product * Number(side), 1)
    case 'parameters': case 'macs': return costOf(row, sort)
    case 'publishedParameters': return row.published.parameters
    case 'publishedMacs': return row.published.macs
    case 'source': return sourceOf(row, score) || null
    default: return row[sort]
  }
}
export const sourceOf = (row: Row, score: string) => row.scores[score]?.source ?? row.published.source

/** Rows without a value come last in both directions; equal rows keep the order of the registry. */
export function sorted(rows: Row[], sort: Sort, descending: boolean, score: string): Row[] {
  const names = new Intl.Collator('en', { numeric: true })
  const sign = descending ? -1 : 1
  return rows.map((row) => ({ row, value: valueOf(row, sort, score) })).sort((a, b) => {
    if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null)
    return sign * (typeof a.value === 'number' ? a.value - (b.value as number) : names.compare(a.value, b.value as string))
  }).map(({ row }) => row)
}

export function tableOf(rows: Row[], scores: string[]): Table {
  const columns = ['model', 'family', 'paper', 'year', 'input', 'parameters counted', 'parameters published (M)', 'MACs counted', 'MACs published (G)', 'source of the costs']
  const more = scores.flatMap((name) => [name, `${name}: note`, `${name}: source`])
  return {
    columns: [...columns, ...more],
    rows: rows.map((row) => [
      row.model, row.family, row.paper, row.year ?? '', row.input, row.parameters ?? '', row.published.parameters ?? '', row.macs ?? '', row.published.macs ?? '', row.published.source,
      ...scores.flatMap((name) => [row.scores[name]?.value ?? '', row.scores[name]?.note ?? '', row.scores[name]?.source ?? '']),
    ]),
  }
}
