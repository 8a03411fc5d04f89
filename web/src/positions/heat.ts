// Pictures of numbers of both signs.
import { imageOf, type Color } from '../figures/pixels'

const LOW = [28, 95, 168]
const MIDDLE = [247, 247, 247]
const HIGH = [196, 84, 6]

/** Blue below 0, white at 0, orange above; `limit` has the full colour. */
export function diverging(value: number, limit: number): Color {
  const part = Math.max(-1, Math.min(1, value / limit))
  const end = part < 0 ? LOW : HIGH
  return MIDDLE.map((one, index) => one + Math.abs(part) * (end[index] - one))
}

/** A picture of (rows, columns) numbers as an address. */
export const pictureOf = (values: ArrayLike<number>, rows: number, columns: number, color: (value: number) => Color) => imageOf(columns, rows, (index) => color(values[index]))

export const largest = (values: ArrayLike<number>) => {
  let most = 1e-9
  for (let index = 0; index < values.length; index++) most = Math.max(most, Math.abs(values[index]))
  return most
}
