// The curves of runs as points, without any drawing.
import type { Detail } from './types'

export type Axis = 'epoch' | 'step' | 'seconds'
export type Points = [number, number][]

export interface Curve {
  id: string
  name: string
  training: Points
  validation: Points
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
const points = (rows: object[], axis: Axis, name: string): Points =>
  (rows as Record<string, unknown>[]).flatMap((row) => (isNumber(row[axis]) && isNumber(row[name]) ? [[row[axis], row[name]] as [number, number]] : []))

export function lossCurve(detail: Detail, axis: Axis): Curve {
  const training = points(detail.steps, axis, 'loss')
  return {
    ...named(detail),
    training: training.length > 1 ? training : points(detail.metrics, axis, 'loss'),
    validation: points(detail.metrics, axis, 'validation_loss'),
  }
}

export function scoreCurve(detail: Detail, axis: Axis): Curve {
  return {
    ...named(detail),
    training: detail.metric === 'accuracy' ? points(detail.metrics, axis, 'accuracy') : [],
    validation: points(detail.metrics, axis, `validation_${detail.metric}`),
  }
}

const named = (detail: Detail) => ({ id: detail.run.id, name: detail.run.name })

/** Where the epoch of the slider is on the axis; null if the run has no such epoch. */
export function placeOf(detail: Detail, axis: Axis, epoch: number): number | null {
  const record = detail.metrics.find((one) => one.epoch === epoch)
  return record && isNumber(record[axis]) ? record[axis] : null
}

/** The settings in which runs differ, or all settings of a single run. */
export function differences(details: Detail[]): { name: string; values: string[] }[] {
  const hidden = new Set(['about', 'kind', 'expect.accuracy', 'expect.time', 'keep_checkpoints', 'save_minutes'])
  const names = [...new Set(details.flatMap((one) => Object.keys(one.recipe)))].filter((name) => !hidden.has(name))
  const text = (value: unknown) => (value === undefined ? '–' : value === '' ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value))
  return names
    .map((name) => ({ name, values: details.map((one) => text(one.recipe[name])) }))
    .filter((row) => details.length < 2 || new Set(row.values).size > 1)
}
