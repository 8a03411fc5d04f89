// A soft round brush on a square of gray values from 0 (black) to 1 (white).

/** Paints the line from (x0, y0) to (x1, y1), in pixels. value: 1 paints, 0 erases. */
export function stroke(pixels: Float32Array, side: number, x0: number, y0: number, x1: number, y1: number, radius: number, value: 0 | 1): void {
  const steps = Math.max(1, Math.ceil(2 * Math.hypot(x1 - x0, y1 - y0)))
  for (let step = 0; step <= steps; step++) dab(pixels, side, x0 + ((x1 - x0) * step) / steps, y0 + ((y1 - y0) * step) / steps, radius, value)
}

/** One dab: full inside the radius, and one pixel of a soft edge. */
function dab(pixels: Float32Array, side: number, x: number, y: number, radius: number, value: 0 | 1): void {
  const reach = radius + 0.5
  for (let row = Math.max(0, Math.floor(y - reach)); row <= Math.min(side - 1, Math.ceil(y + reach)); row++) {
    for (let column = Math.max(0, Math.floor(x - reach)); column <= Math.min(side - 1, Math.ceil(x + reach)); column++) {
      const amount = Math.min(1, Math.max(0, reach - Math.hypot(column + 0.5 - x, row + 0.5 - y)))
      const index = row * side + column
      pixels[index] = value ? Math.max(pixels[index], amount) : Math.min(pixels[index], 1 - amount)
    }
  }
}
