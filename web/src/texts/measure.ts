// Texts and small matrices in figures.
import { imageOf } from '../figures/pixels'

const BLUE = [43, 127, 214] // legible on white and on black

/** A matrix as an image of one pixel per value: transparent for 0, blue for `highest`. */
export function heat(values: ArrayLike<number>, columns: number, highest: number, strongest = 255): string {
  return imageOf(columns, Math.max(1, Math.round(values.length / columns)), (index) => [...BLUE, strongest * Math.max(0, Math.min(1, (values[index] ?? 0) / highest))])
}

/** A word that is not longer than some characters. */
export const short = (word: string, most = 14) => ([...word].length > most ? `${[...word].slice(0, most - 1).join('')}…` : word)

/** A number with some digits; never -0. */
export const fixed = (value: number, digits = 2) => value.toFixed(digits).replace(/^-(0\.?0*)$/, '$1')
