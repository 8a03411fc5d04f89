// What the page Words asks the server, and the words of a text.
import { readAbout, readSafetensors, type Weights } from '../model/safetensors'
import { getJson, post } from '../server'

export interface WordModel {
  id: string
  name: string
  can: string[]
  depth: number
}

export interface Token {
  id: number
  name: string
  word: string
  start: number | null
  end: number | null
  special: boolean
}

interface About {
  model: string
  causal: boolean
  tokens: Token[]
  layers: number
  heads: number
}

export interface Attention extends About {
  weights: Float64Array[] // per layer: heads x tokens x tokens
}

export interface Walk extends About {
  token: number
  layer: number
  scale: number
  norms: string[]
  activation: string
  parts: string[]
  normed: boolean
  arrays: Weights
}

export interface Guess {
  word: string
  probability: number
}

export interface Filled {
  text: string
  filled: string
  gaps: { start: number; end: number; fillings: (Guess & { sentence: string })[] }[]
}

export interface Similar {
  word: string
  uses: { text: string; start: number; end: number }[]
  layers: Record<string, number[][]>
  left_out: number
}

export interface Tagged {
  words: { word: string; tag: string; probability: number; start: number; end: number }[]
  spans?: { text: string; kind: string; start: number; end: number }[]
}

export interface Answered {
  answer: string
  answers: { text: string; start: number | null; end: number | null; score: number; probability: number }[]
}

export interface Classified {
  classes: [string, number][]
  number: number | null
}

const path = (model: string, question: string) => `/api/words/${encodeURIComponent(model)}/${question}`

export const wordModels = async () => (await getJson<{ models: WordModel[] }>('/api/words')).models

export async function ask<T>(model: string, question: string, fields: object, signal: AbortSignal): Promise<T> {
  return (await post(path(model, question), fields, signal)).json()
}

export async function attentionOf(model: string, text: string, signal: AbortSignal): Promise<Attention> {
  const bytes = await (await post(path(model, 'attention'), { text }, signal)).arrayBuffer()
  const about = readAbout<About>(bytes)
  const arrays = readSafetensors(bytes)
  return { ...about, weights: Array.from({ length: about.layers }, (_, index) => arrays[`layer ${index + 1}`].values) }
}

export async function walkOf(model: string, text: string, token: number, layer: number, signal: AbortSignal): Promise<Walk> {
  const bytes = await (await post(path(model, 'walk'), { text, token, layer }, signal)).arrayBuffer()
  return { ...readAbout<Omit<Walk, 'arrays'>>(bytes), arrays: readSafetensors(bytes) }
}

export interface Word {
  text: string
  start: number // in characters as Python counts them
  end: number
}

/** The words of a text: letters and digits together, each other mark alone, [MASK] whole. */
export function wordsOf(text: string): Word[] {
  const found: Word[] = []
  for (const match of text.matchAll(/\[MASK\]|[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*|[^\s\p{L}\p{N}]/gu)) {
    const start = [...text.slice(0, match.index)].length
    found.push({ text: match[0], start, end: start + [...match[0]].length })
  }
  return found
}

/** The characters [start, end) as Python counts them. */
export const part = (text: string, start: number, end?: number) => [...text].slice(start, end).join('')
