// Sums over the blocks of a model, and shares in words.
import type { Answer } from './patterns'
import { isTexts, type TextAnswer } from './texts/texts'

interface Attention {
  attention_macs: number
  global_macs: number
  block_macs?: number // of the whole block, of models of images
}
/** The blocks of a stage, or the layers of a part of a model of texts, stage after stage. */
export function blocksOf(answer: Answer | TextAnswer): Attention[][] {
  return isTexts(answer) ? answer.parts.map((part) => part.layers) : answer.stages.map((stage) => stage.blocks)
}

export function totals(answer: Answer | TextAnswer): { macs: number; global: number } {
  const blocks = blocksOf(answer).flat()
  const sum = (values: number[]) => values.reduce((total, one) => total + one, 0)
  return { macs: sum(blocks.map((block) => block.attention_macs)), global: sum(blocks.map((block) => block.global_macs)) }
}

/** 0.0156 as "1.6 %", with two digits at least. */
export function share(part: number, whole: number): string {
  const value = (100 * part) / whole
  return `${value >= 99.95 ? '100' : value >= 9.95 ? value.toFixed(0) : value.toPrecision(2)} %`
}
