// What is known about the runs: the answers of the server, and the rows of the table.
import type { Table } from '../figures/save'
import { getJson, post } from '../server'
import { WORDS } from '../words/landscape'
import type { Landscape } from './surface'

export type Verb = 'landscape' | 'sharpness' | 'robustness'
export interface ListedRun {
  id: string
  name: string
  kind: string
  can_compute: boolean
  has: Record<Verb, boolean>
}
export interface RunningJob {
  id: string
  verb: string
  name: string
  state: string
  line: string
}
export interface Listing {
  runs: ListedRun[]
  job: RunningJob | null
}
interface Sharpness {
  sample: { description: string; count: number }
  loss: number
  accuracy: number | null
  eigenvalues: { value: number; residual: number; converged: boolean }[]
  lowest: { value: number; residual: number }
  trace: { value: number; error: number; probes: number }
  epsilon: { rho: number; rise: number; one_step: number; gradient: number }
}
interface Robustness {
  clean_accuracy: number
  mean_corruption_accuracy?: number
  images: number
  corrupted: Record<string, Record<string, number>>
  groups: Record<string, number>
}
export interface Measures extends ListedRun {
  older: Verb[]
  landscape: Landscape | null
  sharpness: Sharpness | null
  robustness: Robustness | null
}

export const listing = () => getJson<Listing>('/api/landscapes')
export const measuresOf = (id: string, signal?: AbortSignal) => getJson<Measures>(`/api/landscapes/${encodeURIComponent(id)}`, signal)
export interface Asked {
  verb: Verb
  size: number
  samples: number
}
export async function expectedSeconds(id: string, asked: Asked, signal?: AbortSignal): Promise<number> {
  return (await (await post(`/api/landscapes/${encodeURIComponent(id)}/expected`, asked, signal)).json()).seconds
}
export const start = (id: string, asked: Asked) => post(`/api/landscapes/${encodeURIComponent(id)}/start`, asked)
export const stop = (job: string) => post('/api/landscapes/stop', { job })

export const isPlane = (landscape: Landscape | null): landscape is Landscape => landscape !== null && Array.isArray(landscape.loss[0])

const plain = (value: number) => (Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(4))))
const share = (value: number) => `${(100 * value).toFixed(2)} %`
const finite = (landscape: Landscape) => landscape.loss.flat().filter((one): one is number => one !== null)

export interface MeasureRow {
  label: string
  verb: Verb
  values: (number | null)[]
  texts: string[]
}

/** The rows of the table, a value per run; rows of which no run has a value are left out if a measure was never made. */
export function rowsOf(all: Measures[]): MeasureRow[] {
  const row = (verb: Verb, label: string, value: (one: Measures) => number | null | undefined, format = plain, note: (one: Measures) => string = () => ''): MeasureRow => {
    const values = all.map((one) => value(one) ?? null)
    return { label, verb, values, texts: values.map((one, index) => (one === null ? '–' : format(one) + note(all[index]))) }
  }
  const rho = all.find((one) => one.sharpness)?.sharpness?.epsilon.rho ?? 0.05
  return [
    row('landscape', WORDS.lossHere, (one) => one.landscape?.middle.loss ?? one.sharpness?.loss),
    row('landscape', WORDS.accuracyHere, (one) => one.landscape?.middle.accuracy ?? one.sharpness?.accuracy, share),
    row('landscape', WORDS.lossMean, (one) => one.landscape && finite(one.landscape).reduce((sum, each) => sum + each, 0) / finite(one.landscape).length),
    row('landscape', WORDS.lossHighest, (one) => one.landscape && Math.max(...finite(one.landscape))),
    row('sharpness', WORDS.eigenvalue, (one) => one.sharpness?.eigenvalues[0].value),
    row('sharpness', WORDS.lowest, (one) => one.sharpness?.lowest.value),
    row('sharpness', WORDS.trace, (one) => one.sharpness?.trace.value, plain, (one) => ` ± ${plain(one.sharpness!.trace.error)}`),
    row('sharpness', `${WORDS.rise} ${rho}`, (one) => one.sharpness?.epsilon.rise),
    row('sharpness', WORDS.gradient, (one) => one.sharpness?.epsilon.gradient),
    row('robustness', WORDS.clean, (one) => one.robustness?.clean_accuracy, share),
    row('robustness', WORDS.corrupted, (one) => one.robustness?.mean_corruption_accuracy, share),
    ...Object.entries(WORDS.groups).map(([group, label]) => row('robustness', label, (one) => one.robustness?.groups[group], share)),
  ]
}

export const measureTable = (all: Measures[]): Table => ({
  columns: ['measure', ...all.map((one) => one.name)],
  rows: rowsOf(all).map((row) => [row.label, ...row.values.map((one) => one ?? '')]),
})

/** All points of the landscapes. */
export const pointTable = (all: Measures[]): Table => ({
  columns: ['run', 'first', 'second', 'loss', 'accuracy'],
  rows: all.flatMap(({ name, landscape }) => landscape!.loss.flatMap((row, second) => row.map((loss, first) => [
    name, landscape!.places[first], landscape!.places[second], loss ?? '', landscape!.accuracy?.[second][first] ?? '',
  ]))),
})

/** Seconds in words: half a minute, 4 minutes, 2 hours. */
export function duration(seconds: number): string {
  if (seconds < 50) return `${Math.max(10, Math.round(seconds / 10) * 10)} seconds`
  if (seconds < 90) return '1 minute'
  if (seconds < 5400) return `${Math.round(seconds / 60)} minutes`
  return `${Number((seconds / 3600).toFixed(1))} hours`
}
