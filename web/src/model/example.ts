// A drawing to start with: a T-shirt of a few strokes.
import { stroke } from './brush'

const SIDE = 28
const STROKES: [number, number, number, number][] = [
  [10, 7, 10, 24], [12, 8, 12, 24], [14, 9, 14, 24], [16, 8, 16, 24], [18, 7, 18, 24], // from the neck to the hem
  [9, 6, 4.5, 11], [9, 8, 6, 12], [19, 6, 23.5, 11], [19, 8, 22, 12], // the sleeves
]

export function example(): Float32Array<ArrayBuffer> {
  const pixels = new Float32Array(SIDE * SIDE)
  for (const [x0, y0, x1, y1] of STROKES) stroke(pixels, SIDE, x0, y0, x1, y1, 1.5, 1)
  return pixels
}
