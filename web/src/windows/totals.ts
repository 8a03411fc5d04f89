// Sums over the blocks of a model, and shares in words.
import type { Answer } from './patterns'

export function totals(answer: Answer): { macs: number; global: number } {
  const blocks = answer.stages.flatMap((stage) => stage.blocks)
  const sum = (values: number[]) => values.reduce((total, one) => total + one, 0)
  return { macs: sum(blocks.map((block) => block.attention_macs)), global: sum(blocks.map((block) => block.global_macs)) }
}

/** 0.0156 as "1.6 %", with two digits at least. */
export function share(part: number, whole: number): string {
  const value = (100 * part) / whole
  return `${value >= 99.95 ? '100' : value >= 9.95 ? value.toFixed(0) : value.toPrecision(2)} %`
}
