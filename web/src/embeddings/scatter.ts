// The geometry of the scatter plot: what is where, in pixels. One list of places serves drawing, pointing and saving.

export interface Place {
  x: number
  y: number
}

/** zoom: 1 shows all points. x, y: how far the map is moved, in pixels. */
export interface View {
  zoom: number
  x: number
  y: number
}

export const ALL: View = { zoom: 1, x: 0, y: 0 }

const COLORS = ['linear-1', 'attention-1', 'ffn-1', 'other-1', 'more-1', 'linear-2', 'attention-2', 'ffn-2', 'other-2', 'more-2']
export const colorOf = (kind: number) => (kind < 0 ? 'var(--c-more-2)' : `var(--c-${COLORS[kind % COLORS.length]})`)

const round = (count: number, inner = 1, turn = 0): Place[] =>
  Array.from({ length: count }, (_, index) => {
    const angle = (2 * Math.PI * index) / count - Math.PI / 2 + turn
    const radius = index % 2 ? inner : 1
    return { x: radius * Math.cos(angle), y: radius * Math.sin(angle) }
  })
const cross = (turn: number): Place[] => {
  const [long, short] = [1.1, 0.38]
  const corners = [[-short, -long], [short, -long], [short, -short], [long, -short], [long, short], [short, short], [short, long], [-short, long], [-short, short], [-long, short], [-long, -short], [-short, -short]]
  return corners.map(([x, y]) => ({ x: x * Math.cos(turn) - y * Math.sin(turn), y: x * Math.sin(turn) + y * Math.cos(turn) }))
}
const scaled = (places: Place[], factor: number) => places.map(({ x, y }) => ({ x: x * factor, y: y * factor }))
const SHAPES: (Place[] | null)[] = [
  null, // a circle
  scaled(round(4, 1, Math.PI / 4), 1.25),
  scaled(round(3), 1.3),
  scaled(round(4), 1.25),
  cross(0),
  scaled(round(3, 1, Math.PI), 1.3),
  cross(Math.PI / 4),
  scaled(round(10, 0.45), 1.4),
  scaled(round(6), 1.15),
  scaled(round(8, 0.4), 1.4),
]

/** The path of one marker. The kinds 10 and above have other pairs of color and shape. */
export function marker(kind: number, x: number, y: number, radius: number): string {
  const shape = SHAPES[kind < 0 ? 0 : (kind + Math.floor(kind / COLORS.length)) % SHAPES.length]
  if (!shape) return circle(x, y, radius)
  return `M${shape.map((one) => `${(x + radius * one.x).toFixed(1)} ${(y + radius * one.y).toFixed(1)}`).join('L')}Z`
}

export const circle = (x: number, y: number, radius: number) =>
  `M${(x - radius).toFixed(1)} ${y.toFixed(1)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0Z`

/** Two coordinates per point. axes: "12" takes components 1 and 2; "turn" turns the third one into the plane. */
export function flatten(values: Float64Array, dimensions: number, axes: string, degrees: number): Place[] {
  const [sine, cosine] = [Math.sin((degrees * Math.PI) / 180), Math.cos((degrees * Math.PI) / 180)]
  const [first, second] = axes === 'turn' || dimensions < 3 ? [0, 1] : [Number(axes[0]) - 1, Number(axes[1]) - 1]
  return Array.from({ length: values.length / dimensions }, (_, index) => {
    const at = index * dimensions
    const x = axes === 'turn' && dimensions > 2 ? values[at] * cosine + values[at + 2] * sine : values[at + first]
    return { x, y: values[at + second] }
  })
}

/** Both axes have the same scale, so that distances on the map are comparable; y points up. */
export function placed(flat: Place[], width: number, height: number, margin: number, view: View): Place[] {
  const [left, right] = extent(flat.map((one) => one.x))
  const [bottom, top] = extent(flat.map((one) => one.y))
  const room = Math.min((width - 2 * margin) / (right - left || 1), (height - 2 * margin) / (top - bottom || 1))
  const scale = (right === left && top === bottom ? 1 : room) * view.zoom
  return flat.map(({ x, y }) => ({
    x: width / 2 + (x - (left + right) / 2) * scale + view.x,
    y: height / 2 - (y - (bottom + top) / 2) * scale + view.y,
  }))
}

function extent(values: number[]): [number, number] {
  let [low, high] = [Infinity, -Infinity]
  for (const value of values) {
    if (value < low) low = value
    if (value > high) high = value
  }
  return [low, high]
}

/** Zooms so that the pixel (x, y), counted from the middle of the map, stays where it is. */
export function zoomed(view: View, factor: number, x: number, y: number): View {
  const zoom = Math.min(50, Math.max(1, view.zoom * factor))
  const change = zoom / view.zoom
  return zoom === 1 ? ALL : { zoom, x: x - (x - view.x) * change, y: y - (y - view.y) * change }
}

/** The nearest shown point within `reach` pixels, or -1. */
export function pointAt(places: Place[], shown: boolean[], x: number, y: number, reach: number): number {
  let [best, distance] = [-1, reach * reach]
  places.forEach((one, index) => {
    const found = (one.x - x) ** 2 + (one.y - y) ** 2
    if (shown[index] && found <= distance) [best, distance] = [index, found]
  })
  return best
}

/** The next shown point in a direction: near, and within 45 degrees; `from` itself if there is none. */
export function pointBeside(places: Place[], shown: boolean[], from: number, dx: number, dy: number): number {
  let [best, cost] = [from, Infinity]
  places.forEach((one, index) => {
    const along = (one.x - places[from].x) * dx + (one.y - places[from].y) * dy
    const across = Math.abs((one.x - places[from].x) * dy) + Math.abs((one.y - places[from].y) * dx)
    if (!shown[index] || index === from || along <= 0 || across > along) return
    const found = along + 2 * across
    if (found < cost) [best, cost] = [index, found]
  })
  return best
}

/** True if a point is inside a closed polygon. */
export function isInside({ x, y }: Place, polygon: Place[]): boolean {
  let inside = false
  for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
    const [one, other] = [polygon[a], polygon[b]]
    if (one.y > y !== other.y > y && x < ((other.x - one.x) * (y - one.y)) / (other.y - one.y) + one.x) inside = !inside
  }
  return inside
}

export interface Name extends Place {
  text: string
}

/** Leaves out the names that would cover earlier ones. */
export function withoutOverlap(names: Name[], size: number, most: number): Name[] {
  const kept: (Name & { half: number })[] = []
  for (const one of names) {
    const half = 0.28 * size * one.text.length
    const covers = kept.some((other) => Math.abs(other.x - one.x) < half + other.half && Math.abs(other.y - one.y) < 1.05 * size)
    if (!covers) kept.push({ ...one, half })
    if (kept.length === most) break
  }
  return kept
}

const median = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]

/** The name of each class at the median of its points; names that would overlap move down. */
export function classNames(places: Place[], kinds: number[], shown: boolean[], names: string[], size: number): Name[] {
  const found = names.flatMap((text, kind) => {
    const own = places.filter((_, index) => kinds[index] === kind && shown[index])
    const above = own.length < 8 ? 1.3 * size : 0 // so that the name does not cover a few points
    return own.length ? [{ text, x: median(own.map((one) => one.x)), y: median(own.map((one) => one.y)) - above }] : []
  })
  const kept: Name[] = []
  for (const one of found.sort((a, b) => a.y - b.y)) {
    const covers = () => kept.find((other) => Math.abs(other.x - one.x) < 0.3 * size * (one.text.length + other.text.length) && Math.abs(other.y - one.y) < 1.1 * size)
    for (let tries = 0, other = covers(); other && tries < 30; tries++, other = covers()) one.y = other.y + 1.12 * size
    kept.push(one)
  }
  return kept
}
