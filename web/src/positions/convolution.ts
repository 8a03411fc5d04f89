// Attention that computes a convolution: nine heads, each attends to one neighbour of its pixel.

/** The neighbour of each head, as (row, column), in the order of the weights of a 3 x 3 kernel. */
export const OFFSETS = [-1, 0, 1].flatMap((row) => [-1, 0, 1].map((column) => [row, column] as const))

export const PRESETS: Record<string, number[]> = {
  'Vertical edges': [-1, 0, 1, -2, 0, 2, -1, 0, 1],
  'Horizontal edges': [-1, -2, -1, 0, 0, 0, 1, 2, 1],
  Outline: [0, -1, 0, -1, 4, -1, 0, -1, 0],
  Blur: [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25],
  Sharpen: [0, -1, 0, -1, 5, -1, 0, -1, 0],
  Shift: [0, 0, 0, 1, 0, 0, 0, 0, 0],
}

/** The softmax weights of one head for one query: those of the token of zeros, then those of the pixels. */
export function headWeights(side: number, head: number, query: number, strength: number): Float64Array {
  const [row, column] = [Math.floor(query / side) + OFFSETS[head][0], (query % side) + OFFSETS[head][1]]
  const inside = row >= 0 && row < side && column >= 0 && column < side
  const target = inside ? 1 + row * side + column : 0
  const highest = inside ? strength : 0
  const weights = new Float64Array(side * side + 1).fill(Math.exp(-strength - highest))
  weights[0] = Math.exp(-highest)
  if (inside) weights[target] = 1
  const total = weights.reduce((sum, one) => sum + one, 0)
  return weights.map((one) => one / total)
}

/** What one head passes on: for every query the mean of the pixels by its weights. The token of zeros adds nothing. */
export function headOutput(image: ArrayLike<number>, side: number, head: number, strength: number): number[] {
  return Array.from({ length: side * side }, (_, query) => {
    const weights = headWeights(side, head, query, strength)
    let sum = 0
    for (let key = 0; key < side * side; key++) sum += weights[key + 1] * image[key]
    return sum
  })
}

/** The output of the layer: the outputs of the heads, each times its weight of the kernel. */
export const weighted = (outputs: number[][], kernel: number[]): number[] => outputs[0].map((_, pixel) => outputs.reduce((sum, output, head) => sum + kernel[head] * output[pixel], 0))

/** A 3 x 3 convolution with zero padding. */
export function convolve(image: ArrayLike<number>, side: number, kernel: number[]): number[] {
  return Array.from({ length: side * side }, (_, pixel) => {
    let sum = 0
    OFFSETS.forEach(([down, right], index) => {
      const [row, column] = [Math.floor(pixel / side) + down, (pixel % side) + right]
      if (row >= 0 && row < side && column >= 0 && column < side) sum += kernel[index] * image[row * side + column]
    })
    return sum
  })
}

export const largestDifference = (a: number[], b: number[]) => a.reduce((most, value, index) => Math.max(most, Math.abs(value - b[index])), 0)

export const SIDE = 14
const SHAPES: Record<string, string[]> = {
  'T-shirt': ['', '..####..####', '.############', '##############', '##############', '###.######.###', '.#..######..#.', '....######', '....######', '....######', '....######', '....######', '....######', ''],
  House: ['......##', '.....####', '....######', '...########', '..##########', '.############', '..##########', '..##########', '..##..##..##', '..##..##..##', '..######..##', '..######..##', '..######..##', ''],
  Ring: ['', '....######', '..####..####', '..##......##', '.##........##', '.##........##', '.##........##', '.##........##', '.##........##', '.##........##', '..##......##', '..####..####', '....######', ''],
}

/** Sample images of gray values from 0 to 1. */
export const SAMPLES: Record<string, number[]> = Object.fromEntries(
  Object.entries(SHAPES).map(([name, lines]) => [name, lines.flatMap((line) => Array.from({ length: SIDE }, (_, column) => (line[column] === '#' ? 0.9 : 0.1)))]),
)
