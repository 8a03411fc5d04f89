// The beam search as a tree: where each candidate comes from, and where it is drawn.
import type { Candidate, Piece, Translation } from './api'

export interface Node {
  step: number // counted from 0
  rank: number // by log probability within the step
  candidate: Candidate
  label: string
  parent: Node | null
  ids: number[] // of the text up to this token, with the fixed start
  isBest: boolean
}

/** A token as it is shown. A hyphen in front: it continues the word before it. */
export const labelOf = (one: Piece, isFirst: boolean) => (one.begins || isFirst || !/^[\p{L}\p{N}]/u.test(one.piece) ? one.piece.trim() || '␣' : `-${one.piece}`)
export const scoreOf = (value: number) => value.toFixed(2).replace('-', '−')

/** The candidates of every step, each with the one that it extends. */
export function treeOf(found: Translation): Node[][] {
  const start = found.prefix.map((one) => one.id)
  let beams: (Node | null)[] = [null]
  return found.steps.map((candidates, step) => {
    const nodes = candidates.map((candidate, rank): Node => {
      const parent = beams[candidate.beam] ?? null
      return { step, rank, candidate, label: labelOf(candidate, step === 0 && !start.length), parent, ids: [...(parent?.ids ?? start), candidate.id], isBest: found.best[step] === rank }
    })
    beams = nodes.filter((one) => one.candidate.fate === 'kept')
    return nodes
  })
}

/** The step of the best translation whose token was the least probable. */
export function hardestStep(tree: Node[][]): Node | null {
  const path = tree.map((nodes) => nodes.find((one) => one.isBest)).filter((one): one is Node => !!one)
  const gain = (one: Node) => one.candidate.score - (one.parent?.candidate.score ?? 0)
  return path.reduce<Node | null>((worst, one) => (!worst || gain(one) < gain(worst) ? one : worst), null)
}

/** The text up to a node as one reads it. */
export function textOf(node: Node | null): string {
  if (!node) return ''
  const before = textOf(node.parent)
  const own = node.candidate.piece.trim()
  return node.candidate.begins && before ? `${before} ${own}` : before + own
}

/** The node that an arrow key leads to. */
export function neighbour(tree: Node[][], from: Node, key: string, visible: (one: Node) => boolean): Node | null {
  if (key === 'ArrowLeft') return from.parent
  if (key === 'ArrowRight') {
    const children = (tree[from.step + 1] ?? []).filter((one) => one.parent === from && visible(one))
    return children.find((one) => one.isBest) ?? children[0] ?? null
  }
  const column = tree[from.step].filter(visible)
  const at = column.indexOf(from)
  return column[at + (key === 'ArrowUp' ? -1 : 1)] ?? null
}
