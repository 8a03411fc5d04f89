// What the server answers on translations.
import { getJson, post, type LabModel } from '../server'

export interface Piece {
  id: number
  piece: string
  begins: boolean
}
export interface Candidate extends Piece {
  end: boolean
  beam: number
  score: number
  fate: 'kept' | 'finished' | 'dropped'
}
export interface Attention {
  read: string[]
  written: string[]
  weights: number[][][]
  best: number
}
export interface Translation {
  text: string
  pieces: string[]
  prefix: Piece[]
  steps: Candidate[][]
  best: number[]
  texts: { text: string; score: number; worth: number; ended: boolean }[]
  attention: Attention | null
}
export interface NextWord extends Piece {
  end: boolean
  probability: number
}
export interface Question {
  model: string
  text: string
  start: number[]
}

export const translators = async () => (await getJson<{ models: LabModel[] }>('/api/translators')).models

export const translate = async (asked: Question & { beams: number; penalty: number }, signal: AbortSignal): Promise<Translation> =>
  (await post('/api/translate', asked, signal)).json()

export const nextWords = async (asked: Question, signal: AbortSignal): Promise<{ words: NextWord[]; start: string }> =>
  (await post('/api/translate/next', asked, signal)).json()
