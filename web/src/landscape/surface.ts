// Loss landscapes as shapes: all on one scale, turned together. Canvas and SVG draw the same list.
import { ticks } from '../figures/scale'

export interface Landscape {
  directions: 'random' | 'eigen'
  sample: string
  loss_name: string
  places: number[]
  loss: (number | null)[][] // loss[second direction][first]
  accuracy: (number | null)[][] | null
  middle: { loss: number; accuracy: number | null }
}
export interface Named {
  name: string
  landscape: Landscape
}
export type Value = 'loss' | 'accuracy'
export type Height = 'auto' | 'linear' | 'log'
export interface View {
  azimuth: number // degrees
  elevation: number // degrees; 90 is from above
}
export interface Scale {
  low: number
  high: number
  isLog: boolean
  marks: number[]
  at: (value: number) => number // 0 to 1
}
export interface Look {
  text: string
  quiet: string
  line: string
  ground: string
  size: number // of the type
}
export type Shape =
  | { kind: 'polygon'; points: number[]; fill: string; stroke: string }
  | { kind: 'lines'; points: number[]; stroke: string; width: number } // x1 y1 x2 y2, four numbers per line
  | { kind: 'dot'; x: number; y: number; radius: number; fill: string; stroke: string }
  | { kind: 'text'; x: number; y: number; text: string; size: number; anchor: 'start' | 'middle' | 'end'; fill: string; bold: boolean }

const WIDE = 10 // losses that differ by more than this factor have a logarithmic height, as in the figures of the reports
const RISE = 1.25 // height of the surface beside the half side of its floor
const LEVELS = 12
const FINE = 3 // parts of the side of a cell of a contour map

export const valuesOf = (landscape: Landscape, value: Value) => (value === 'loss' ? landscape.loss : landscape.accuracy)

/** One scale for all landscapes. */
export function scaleOf(landscapes: Landscape[], value: Value, height: Height): Scale {
  const all = landscapes.flatMap((one) => (valuesOf(one, value) ?? []).flat()).filter((one): one is number => one !== null)
  let [low, high] = [Math.min(...all), Math.max(...all)]
  if (!(high > low)) high = low + 1e-9
  const isLog = value === 'loss' && low > 0 && (height === 'log' || (height === 'auto' && high > WIDE * low))
  const [first, last] = isLog ? [Math.log(low), Math.log(high)] : [low, high]
  return { low, high, isLog, marks: isLog ? logMarks(low, high) : ticks(low, high, 4), at: (one) => ((isLog ? Math.log(one) : one) - first) / (last - first) }
}

function logMarks(low: number, high: number): number[] {
  const powers = Math.log10(high / low)
  const digits = powers > 3 ? [1] : powers > 1.5 ? [1, 3] : [1, 2, 5]
  const found = []
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) for (const digit of digits) found.push(digit * 10 ** power)
  return found.filter((one) => one >= low && one <= high).map((one) => Number(one.toPrecision(3)))
}

/** The corners of a surface: x, y from -1 to 1 over the widest landscape, z from 0 to 1 on the scale; NaN without a value. */
export function vertices(landscape: Landscape, value: Value, scale: Scale, extent: number): Float64Array {
  const rows = valuesOf(landscape, value) ?? []
  const found = new Float64Array(3 * rows.length * rows.length)
  rows.forEach((row, second) => row.forEach((one, first) => {
    found.set([landscape.places[first] / extent, landscape.places[second] / extent, one === null ? NaN : scale.at(one)], 3 * (second * rows.length + first))
  }))
  return found
}
export const extentOf = (landscapes: Landscape[]) => Math.max(...landscapes.map((one) => Math.abs(one.places[one.places.length - 1])))

/** Orthographic: from a corner to the screen, in units of the half side; the middle of the box is at 0, 0. */
export function projection({ azimuth, elevation }: View): (x: number, y: number, z: number) => [number, number] {
  const [a, e] = [(azimuth * Math.PI) / 180, (elevation * Math.PI) / 180]
  const [sinA, cosA, sinE, cosE] = [Math.sin(a), Math.cos(a), Math.sin(e), Math.cos(e)]
  return (x, y, z) => [x * cosA - y * sinA, -((z - 0.5) * RISE * cosE + (x * sinA + y * cosA) * sinE)]
}

const STOPS = [[68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140], [40, 174, 128], [94, 201, 98], [173, 220, 48], [253, 231, 37]]
/** Viridis, which colour-blind people can read. light: 1 as it is. */
export function colorAt(share: number, light = 1): string {
  const place = Math.min(1, Math.max(0, share)) * (STOPS.length - 1)
  const index = Math.min(STOPS.length - 2, Math.floor(place))
  const part = place - index
  return `rgb(${STOPS[index].map((one, channel) => Math.round(Math.min(255, (one + (STOPS[index + 1][channel] - one) * part) * light))).join(' ')})`
}

export interface Mesh {
  name: string
  landscape: Landscape
  corners: Float64Array
  size: number
  fills: string[] // of the cells
  edges: string[]
}

/** What does not change when the surface is turned. */
export function meshOf({ name, landscape }: Named, value: Value, scale: Scale, extent: number): Mesh {
  const corners = vertices(landscape, value, scale, extent)
  const size = landscape.places.length
  const [fills, edges]: string[][] = [[], []]
  const z = (row: number, column: number) => corners[3 * (row * size + column) + 2]
  const step = 2 / (size - 1)
  for (let row = 0; row + 1 < size; row++) for (let column = 0; column + 1 < size; column++) {
    const [a, b, c, d] = [z(row, column), z(row, column + 1), z(row + 1, column + 1), z(row + 1, column)]
    const [dx, dy] = [(RISE * (b + c - a - d)) / 2 / step, (RISE * (c + d - a - b)) / 2 / step]
    const light = 0.72 + (0.36 * (1 - 0.45 * dx + 0.35 * dy)) / Math.hypot(dx, dy, 1) / 1.15
    const height = (a + b + c + d) / 4
    fills.push(colorAt(height, light))
    edges.push(colorAt(height, light * 0.86))
  }
  return { name, landscape, corners, size, fills, edges }
}

interface Panel {
  x: number // of the middle
  y: number
  unit: number // pixels of the half side
  top: number
  width: number
}
export interface Frame {
  width: number
  height: number
  panels: Panel[]
  bar: { x: number; y: number; width: number }
}

/** Panels side by side, or below each other where the window is narrow. */
export function frameOf(count: number, width: number, size: number): Frame {
  const most = Math.max(1, Math.floor(width / (19 * size)))
  const columns = count > most ? Math.ceil(count / Math.ceil(count / most)) : count
  const rows = Math.ceil(count / columns)
  const panel = width / columns
  const height = Math.min(0.86 * panel, 25 * size)
  const title = 2.9 * size
  const panels = Array.from({ length: count }, (_, index) => {
    const top = Math.floor(index / columns) * (height + title)
    return { x: ((index % columns) + 0.5) * panel, y: top + title + height / 2, unit: Math.min((panel / 2 - 3.2 * size) / 1.42, height / 2.9), top, width: panel }
  })
  const wide = Math.min(width - 3 * size, 34 * size)
  const bottom = rows * (height + title)
  return { width, height: bottom + 4.3 * size, panels, bar: { x: (width - wide) / 2, y: bottom + 0.7 * size, width: wide } }
}

const short = (value: number) => Number(value.toPrecision(3)).toLocaleString('en-US', { maximumFractionDigits: 4 })
export const number = (value: number, kind: Value) => (kind === 'accuracy' ? `${(100 * value).toFixed(1)} %` : short(value))

/** The bar of colours, with its numbers. */
function bar(frame: Frame, scale: Scale, value: Value, title: string, look: Look): Shape[] {
  const { x, y, width } = frame.bar
  const height = 0.8 * look.size
  const steps = 96
  const found: Shape[] = []
  for (let step = 0; step < steps; step++) {
    const [left, right] = [x + (step * width) / steps, x + ((step + 1) * width) / steps]
    const fill = colorAt((step + 0.5) / steps)
    found.push({ kind: 'polygon', points: [left, y, right, y, right, y + height, left, y + height], fill, stroke: fill })
  }
  for (const mark of scale.marks) {
    const at = x + scale.at(mark) * width
    found.push({ kind: 'lines', points: [at, y + height, at, y + height + 0.3 * look.size], stroke: look.quiet, width: 1 })
    found.push({ kind: 'text', x: at, y: y + height + 1.25 * look.size, text: value === 'accuracy' ? `${Math.round(100 * mark)} %` : short(mark), size: 0.88 * look.size, anchor: 'middle', fill: look.text, bold: false })
  }
  found.push({ kind: 'text', x: x + width / 2, y: y + height + 2.55 * look.size, text: title, size: 0.92 * look.size, anchor: 'middle', fill: look.text, bold: false })
  return found
}

function heading(panel: Panel, mesh: Mesh, look: Look): Shape[] {
  const { loss, accuracy } = mesh.landscape.middle
  const most = Math.floor(panel.width / (0.62 * look.size))
  const name = mesh.name.length > most ? `${mesh.name.slice(0, most - 1)}…` : mesh.name
  const words = `loss ${short(loss)}${accuracy === null ? '' : `, accuracy ${number(accuracy, 'accuracy')}`}`
  return [
    { kind: 'text', x: panel.x, y: panel.top + 1.1 * look.size, text: name, size: 1.08 * look.size, anchor: 'middle', fill: look.text, bold: true },
    { kind: 'text', x: panel.x, y: panel.top + 2.35 * look.size, text: words, size: 0.9 * look.size, anchor: 'middle', fill: look.quiet, bold: false },
  ]
}

function surface(panel: Panel, mesh: Mesh, view: View, scale: Scale, value: Value, extent: number, look: Look): Shape[] {
  const project = projection(view)
  const at = (x: number, y: number, z: number): [number, number] => {
    const [across, down] = project(x, y, z)
    return [panel.x + panel.unit * across, panel.y + panel.unit * down]
  }
  const angle = (view.azimuth * Math.PI) / 180
  const [isFarX, isFarY] = [Math.sin(angle) > 0, Math.cos(angle) > 0] // the larger x or y is farther away
  const found: Shape[] = [...axes(at, mesh, view, isFarX, isFarY, scale, value, extent, look)]
  const { corners, size } = mesh
  const places = new Float64Array(2 * size * size)
  for (let index = 0; index < size * size; index++) places.set(at(corners[3 * index], corners[3 * index + 1], corners[3 * index + 2]), 2 * index)
  const middle = (size - 1) / 2 // the cells before it are behind the model's own point
  for (let i = 0; i + 1 < size; i++) for (let j = 0; j + 1 < size; j++) {
    if (i === middle && j === middle) found.push(...pin(at, scale.at(value === 'loss' ? mesh.landscape.middle.loss : mesh.landscape.middle.accuracy ?? 0), look))
    const [row, column] = [isFarY ? size - 2 - i : i, isFarX ? size - 2 - j : j]
    const [a, b] = [2 * (row * size + column), 2 * ((row + 1) * size + column)]
    const points = [places[a], places[a + 1], places[a + 2], places[a + 3], places[b + 2], places[b + 3], places[b], places[b + 1]]
    if (points.some(Number.isNaN)) continue
    const cell = row * (size - 1) + column
    found.push({ kind: 'polygon', points, fill: mesh.fills[cell], stroke: mesh.edges[cell] })
  }
  return found
}

type At = (x: number, y: number, z: number) => [number, number]

/** A pin in the model's own point; nearer parts of the surface hide its foot. */
function pin(at: At, height: number, look: Look): Shape[] {
  const [foot, head] = [at(0, 0, height), at(0, 0, 1.08)]
  return [
    { kind: 'lines', points: [...foot, ...head], stroke: '#ff5a36', width: 0.13 * look.size },
    { kind: 'dot', x: head[0], y: head[1], radius: 0.26 * look.size, fill: '#ff5a36', stroke: '#ffffff' },
  ]
}

function axes(at: At, mesh: Mesh, view: View, isFarX: boolean, isFarY: boolean, scale: Scale, value: Value, extent: number, look: Look): Shape[] {
  const [nearX, nearY] = [isFarX ? -1 : 1, isFarY ? -1 : 1]
  const ring: [number, number][] = [[-1, -1], [1, -1], [1, 1], [-1, 1]]
  const lines: number[] = []
  ring.forEach(([x, y], index) => lines.push(...at(x, y, 0), ...at(...ring[(index + 1) % 4], 0)))
  const left = ring.reduce((best, one) => (at(...one, 0)[0] < at(...best, 0)[0] ? one : best))
  const found: Shape[] = []
  const label = ([x, y]: [number, number], text: string, anchor: 'start' | 'middle' | 'end' = 'middle') =>
    found.push({ kind: 'text', x, y: y + 0.3 * look.size, text, size: 0.82 * look.size, anchor, fill: look.quiet, bold: false })
  const word = mesh.landscape.directions === 'eigen' ? 'eigenvector' : 'direction'
  if (view.elevation >= 15) {
    label(at(0, 1.22 * nearY, 0), `${word} 1`)
    label(at(1.22 * nearX, 0, 0), `${word} 2`)
    for (const end of [-1, 1]) {
      label(at(0.84 * end, 1.14 * nearY, 0), short(end * extent))
      label(at(1.14 * nearX, 0.84 * end, 0), short(end * extent))
    }
  }
  if (view.elevation <= 75) {
    lines.push(...at(...left, 0), ...at(...left, 1))
    for (const mark of scale.marks) {
      const [x, y] = at(...left, scale.at(mark))
      lines.push(x, y, x - 0.3 * look.size, y)
      label([x - 0.45 * look.size, y], value === 'accuracy' ? `${Math.round(100 * mark)} %` : short(mark), 'end')
    }
  }
  return [{ kind: 'lines', points: lines, stroke: look.quiet, width: 1 }, ...found]
}

function contours(panel: Panel, mesh: Mesh, extent: number, look: Look): Shape[] {
  const { corners, size } = mesh
  const half = 1.25 * panel.unit
  const at = (x: number, y: number): [number, number] => [panel.x + half * x, panel.y - half * y]
  const found: Shape[] = []
  const lines: number[] = []
  for (let row = 0; row + 1 < size; row++) for (let column = 0; column + 1 < size; column++) {
    const cell = [row * size + column, row * size + column + 1, (row + 1) * size + column + 1, (row + 1) * size + column]
    const points = cell.flatMap((index) => at(corners[3 * index], corners[3 * index + 1]))
    const heights = cell.map((index) => corners[3 * index + 2])
    if (heights.some(Number.isNaN)) continue
    for (let part = 0; part < FINE * FINE; part++) found.push(patch(points, heights, part % FINE, Math.floor(part / FINE)))
    for (let level = 1; level < LEVELS; level++) lines.push(...crossings(points, heights, level / LEVELS))
  }
  found.push({ kind: 'lines', points: lines, stroke: 'rgba(255, 255, 255, 0.8)', width: 0.07 * look.size })
  const [x, y] = at(0, 0)
  found.push({ kind: 'dot', x, y, radius: 0.28 * look.size, fill: '#ff5a36', stroke: '#ffffff' })
  const word = mesh.landscape.directions === 'eigen' ? 'eigenvector' : 'direction'
  const label = (place: [number, number], text: string, anchor: 'start' | 'middle' | 'end') =>
    found.push({ kind: 'text', x: place[0], y: place[1], text, size: 0.82 * look.size, anchor, fill: look.quiet, bold: false })
  const [low, side] = [half + 1.1 * look.size, half + 0.4 * look.size]
  for (const end of [-1, 1]) {
    label([panel.x + end * half, panel.y + low], short(end * extent), end < 0 ? 'start' : 'end')
    label([panel.x - side, panel.y - end * half + (end < 0 ? 0 : 0.7 * look.size)], short(end * extent), 'end')
  }
  label([panel.x, panel.y + low], `${word} 1`, 'middle')
  label([panel.x - side, panel.y], '2', 'end')
  return found
}

/** A part of a cell, with the colour of its own height: contours are smooth, though the points are few. */
function patch(points: number[], heights: number[], column: number, row: number): Shape {
  const [left, top, right, bottom] = [points[0], points[1], points[4], points[5]]
  const [x, y, w, h] = [left + (column * (right - left)) / FINE, top + (row * (bottom - top)) / FINE, (right - left) / FINE, (bottom - top) / FINE]
  const [u, v] = [(column + 0.5) / FINE, (row + 0.5) / FINE]
  const fill = colorAt((1 - v) * ((1 - u) * heights[0] + u * heights[1]) + v * ((1 - u) * heights[3] + u * heights[2]))
  return { kind: 'polygon', points: [x, y, x + w, y, x + w, y + h, x, y + h], fill, stroke: fill }
}

/** Where a level crosses the sides of a cell: none, one or two lines. */
function crossings(points: number[], heights: number[], level: number): number[] {
  const found: number[] = []
  for (let side = 0; side < 4; side++) {
    const next = (side + 1) % 4
    const [a, b] = [heights[side], heights[next]]
    if (a < level === b < level) continue
    const part = (level - a) / (b - a)
    found.push(points[2 * side] + part * (points[2 * next] - points[2 * side]), points[2 * side + 1] + part * (points[2 * next + 1] - points[2 * side + 1]))
  }
  return found
}

export interface Scene {
  meshes: Mesh[]
  scale: Scale
  value: Value
  extent: number
  title: string
}

/** The scene of some landscapes: everything but the view. */
export function sceneOf(all: Named[], value: Value, height: Height): Scene {
  const landscapes = all.map((one) => one.landscape)
  const [scale, extent] = [scaleOf(landscapes, value, height), extentOf(landscapes)]
  const title = value === 'accuracy' ? 'accuracy' : `${[...new Set(landscapes.map((one) => one.loss_name))].join(' and ')}${scale.isLog ? ', logarithmic' : ''}`
  return { meshes: all.map((one) => meshOf(one, value, scale, extent)), scale, value, extent, title }
}

export function shapesOf(scene: Scene, frame: Frame, view: View, isFlat: boolean, look: Look): Shape[] {
  const { scale, value, extent } = scene
  return [
    ...scene.meshes.flatMap((mesh, index) => {
      const panel = frame.panels[index]
      return [...heading(panel, mesh, look), ...(isFlat ? contours(panel, mesh, extent, look) : surface(panel, mesh, view, scale, value, extent, look))]
    }),
    ...bar(frame, scale, value, scene.title, look),
  ]
}
