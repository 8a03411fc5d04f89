// Weights as colours over an image in light greys, so that neither hides the other; the same as in the figures of the docs.
import { imageOf } from '../figures/pixels'

const DARKEST = 0.7
const MIDDLE = 0.85
const MOST = 0.78
const FROM_YELLOW = 0.2
// ColorBrewer's YlOrRd.
const STOPS = [[255, 255, 204], [255, 237, 160], [254, 217, 118], [254, 178, 76], [253, 141, 60], [252, 78, 42], [227, 26, 28], [189, 0, 38], [128, 0, 38]]

function colorOf(value: number): number[] {
  const place = Math.min(FROM_YELLOW + (1 - FROM_YELLOW) * value, 1) * (STOPS.length - 1)
  const index = Math.min(Math.floor(place), STOPS.length - 2)
  return STOPS[index].map((from, channel) => from + (place - index) * (STOPS[index + 1][channel] - from))
}

const opacityOf = (value: number) => MOST * Math.sqrt(value)

/** The map as an image of one pixel per patch, transparent where there is no weight. */
export function overlay(values: Float64Array, columns: number): string {
  const highest = Math.max(...values, 1e-12)
  return imageOf(columns, values.length / columns, (index) => {
    const value = Math.max(values[index] / highest, 0)
    const [red, green, blue] = colorOf(value)
    return [red, green, blue, 255 * opacityOf(value)]
  })
}

/** The colour of a weight from 0 to 1 over a middle grey, for the colour bar. */
export function barColor(value: number): string {
  const opacity = opacityOf(value)
  return `rgb(${colorOf(value).map((one) => Math.round(opacity * one + (1 - opacity) * 255 * MIDDLE)).join(' ')})`
}

const luminance = (pixels: Float64Array, size: number, channels: number, index: number) =>
  channels === 1 ? pixels[index] : 0.299 * pixels[index] + 0.587 * pixels[size + index] + 0.114 * pixels[2 * size + index]

/** The image in light greys of full contrast. */
export function lightGrey(pixels: Float64Array, [channels, height, width]: [number, number, number]): string {
  const size = height * width
  const values = Float64Array.from({ length: size }, (_, index) => luminance(pixels, size, channels, index))
  const sorted = values.slice().sort()
  let low = sorted[Math.floor(0.01 * (size - 1))]
  let high = sorted[Math.ceil(0.99 * (size - 1))]
  if (high <= low) [low, high] = [0, 255]
  return imageOf(width, height, (index) => {
    const grey = 255 * (DARKEST + (1 - DARKEST) * Math.min(Math.max((values[index] - low) / (high - low), 0), 1))
    return [grey, grey, grey, 255]
  })
}

/** The image as it is. */
export function plainImage(pixels: Float64Array, [channels, height, width]: [number, number, number]): string {
  const size = height * width
  const channel = (number: number) => (channels === 1 ? 0 : number * size)
  return imageOf(width, height, (index) => [pixels[index], pixels[channel(1) + index], pixels[channel(2) + index], 255])
}
