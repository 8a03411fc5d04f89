// Position encodings from their formulas, and what is measured on them.

export type Layout = 'interleaved' | 'halves' | 't2t'

/** A vector per position: (rows, width), row by row. */
export interface Table {
  rows: number
  width: number
  values: Float32Array | Float64Array
}

/** Dimension pair i turns by base^(-i / pairs) per position; in t2t the last one by 1 / base exactly. */
export function frequencies(width: number, base: number, layout: Layout = 'interleaved'): number[] {
  const pairs = Math.floor(width / 2)
  const last = layout === 't2t' ? Math.max(pairs - 1, 1) : pairs
  return Array.from({ length: pairs }, (_, pair) => base ** (-pair / last))
}

/** Where the sine and the cosine of a pair are. */
export const placesOf = (pair: number, width: number, layout: Layout): [number, number] =>
  layout === 'interleaved' ? [2 * pair, 2 * pair + 1] : [pair, Math.floor(width / 2) + pair]

/** The pair of a dimension. */
export const pairOf = (dimension: number, width: number, layout: Layout) => (layout === 'interleaved' ? Math.floor(dimension / 2) : dimension % Math.floor(width / 2))

/** Sines and cosines of the position (Vaswani et al., 2017, 3.5). */
export function sinusoids(length: number, width: number, base: number, layout: Layout = 'interleaved'): Table {
  const values = new Float64Array(length * width)
  frequencies(width, base, layout).forEach((frequency, pair) => {
    const [sine, cosine] = placesOf(pair, width, layout)
    for (let position = 0; position < length; position++) {
      values[position * width + sine] = Math.sin(position * frequency)
      values[position * width + cosine] = Math.cos(position * frequency)
    }
  })
  return { rows: length, width, values }
}

/** Patches of a grid: the row in one half of the dimensions, the column in the other. */
export function gridSinusoids(height: number, columns: number, width: number, base: number): Table {
  const half = width / 2
  const rowTable = sinusoids(height, half, base, 'halves')
  const columnTable = sinusoids(columns, half, base, 'halves')
  const values = new Float64Array(height * columns * width)
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < columns; column++) {
      const start = (row * columns + column) * width
      values.set(rowTable.values.subarray(row * half, (row + 1) * half), start)
      values.set(columnTable.values.subarray(column * half, (column + 1) * half), start + half)
    }
  }
  return { rows: height * columns, width, values }
}

/** The cosine similarity of one position with every position. */
export function similarities({ rows, width, values }: Table, position: number): number[] {
  const product = (a: number, b: number) => {
    let sum = 0
    for (let index = 0; index < width; index++) sum += values[a * width + index] * values[b * width + index]
    return sum
  }
  const own = Math.sqrt(product(position, position))
  return Array.from({ length: rows }, (_, row) => product(position, row) / Math.max(own * Math.sqrt(product(row, row)), 1e-30))
}

/** One dimension over the positions. */
export const dimensionOf = ({ rows, width, values }: Table, dimension: number): number[] => Array.from({ length: rows }, (_, row) => values[row * width + dimension])

/** Rotary positions turn each pair of a query or key by an angle (Su et al., 2021). */
export const rotaryAngle = (position: number, pair: number, width: number, base: number) => position * base ** ((-2 * pair) / width)

/** A vector after its rotation; pairs are neighbouring dimensions. */
export function rotated(vector: number[], position: number, base: number): number[] {
  const found = [...vector]
  for (let pair = 0; pair < vector.length / 2; pair++) {
    const angle = rotaryAngle(position, pair, vector.length, base)
    const [x, y] = [vector[2 * pair], vector[2 * pair + 1]]
    found[2 * pair] = x * Math.cos(angle) - y * Math.sin(angle)
    found[2 * pair + 1] = x * Math.sin(angle) + y * Math.cos(angle)
  }
  return found
}

/** The score of a query and an equal key at a distance, relative to the score at distance 0. */
export function rotaryScore(distance: number, width: number, base: number): number {
  const pairs = width / 2
  let sum = 0
  for (let pair = 0; pair < pairs; pair++) sum += Math.cos(rotaryAngle(distance, pair, width, base))
  return sum / pairs
}

/** The bias of a query patch to every key patch of its window, from a table (2h - 1, 2w - 1, heads). */
export function relativeBias(table: ArrayLike<number>, height: number, columns: number, heads: number, head: number, query: number): number[] {
  const [row, column] = [Math.floor(query / columns), query % columns]
  return Array.from({ length: height * columns }, (_, key) => {
    const down = row - Math.floor(key / columns) + height - 1
    const right = column - (key % columns) + columns - 1
    return table[(down * (2 * columns - 1) + right) * heads + head]
  })
}

export * from './convolution'
