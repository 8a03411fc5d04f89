// Ticks, colours and the type size of figures.
/** Round numbers from `lowest` to `highest`, about `count` of them. */
export function ticks(lowest: number, highest: number, count: number): number[] {
  const rough = (highest - lowest) / count
  const power = 10 ** Math.floor(Math.log10(rough))
  const distance = (one: number) => Math.abs(Math.log(one / rough))
  const step = [1, 2, 5, 10].map((one) => one * power).reduce((best, one) => (distance(one) < distance(best) ? one : best))
  const found = []
  for (let value = Math.ceil(lowest / step) * step; value <= highest * 1.0001; value += step) found.push(value)
  return found
}

const LONG = new Intl.NumberFormat('en-US', { notation: 'compact', compactDisplay: 'long', maximumFractionDigits: 1 })
export const inWords = (value: number) => LONG.format(value)
export const thousands = (value: number) => value.toLocaleString('en-US')
export const percent = (share: number) => `${(100 * share).toFixed(1)} %`

const COLORS: Record<string, string> = {
  'patch embedding': '--c-other-1',
  'query, key, value': '--c-linear-1',
  'output projection': '--c-linear-2',
  'query x key': '--c-attention-1',
  'weights x value': '--c-attention-2',
  'feed-forward, up': '--c-ffn-1',
  'feed-forward, down': '--c-ffn-2',
  'class head': '--c-other-2',
}
const OTHERS = ['--c-more-1', '--c-more-2']
export const colorOf = (label: string, index: number) => `var(${COLORS[label] ?? OTHERS[index % 2]})`

/** The root's type size in pixels: 16, or 26 in projector mode. */
export const typeSize = () => parseFloat(getComputedStyle(document.documentElement).fontSize)
