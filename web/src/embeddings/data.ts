// What the server answers about sets, their points and their maps.
import { readAbout, readSafetensors } from '../model/safetensors'
import { getJson, post } from '../server'

export interface EmbeddingModel {
  id: string
  name: string
  reads: 'images' | 'texts' | 'words'
  sets: { id: string; title: string }[]
}

export interface Listing {
  models: EmbeddingModel[]
  projections: { id: string; title: string; install: string }[]
}

export interface Points {
  count: number
  total: number
  layers: number
  pools: string[]
  classes: string[]
  labels: number[]
  predictions: number[]
  probabilities: number[]
  texts: string[]
  tile: number
  columns: number
}

/** values: `dimensions` coordinates per point. agreement: a fraction, null without labels. */
export interface PointMap {
  layer: number
  explained: number[]
  agreement: number | null
  values: Float64Array
  dimensions: number
  norms: Float64Array
}

export interface Neighbour {
  point: number
  cosine: number
}

export interface NearWord {
  word: string
  cosine: number
}

const of = (id: string) => `/api/embeddings/${encodeURIComponent(id)}`

export const listing = (signal?: AbortSignal) => getJson<Listing>('/api/embeddings', signal)

export async function pointsOf(id: string, set: string, signal?: AbortSignal): Promise<Points> {
  return (await post(`${of(id)}/points`, { set }, signal)).json()
}

export async function mapOf(id: string, set: string, layer: number, pool: string, projection: string, signal?: AbortSignal): Promise<PointMap> {
  const bytes = await (await post(of(id), { set, layer, pool, projection }, signal)).arrayBuffer()
  const { points, norms } = readSafetensors(bytes)
  const about = readAbout<{ layer: number; explained: number[]; agreement: number | null }>(bytes)
  return { ...about, values: points.values, dimensions: points.shape[1], norms: norms.values }
}

export async function neighboursOf(id: string, set: string, layer: number, pool: string, point: number, signal?: AbortSignal): Promise<Neighbour[]> {
  return (await (await post(`${of(id)}/neighbours`, { set, layer, pool, point, count: 8 }, signal)).json()).neighbours
}

/** The images of a set as one data URL, so that a saved figure contains them. */
export async function spriteOf(id: string, set: string, signal?: AbortSignal): Promise<string> {
  const response = await fetch(`${of(id)}/sprite?set=${encodeURIComponent(set)}`, { signal, credentials: 'same-origin' })
  if (!response.ok) throw new Error(`The lab answered ${response.status}.`)
  const blob = await response.blob()
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob)
  })
}

export async function keepTexts(given: string[] | Blob, signal?: AbortSignal): Promise<{ set: string; count: number }> {
  return (await post('/api/texts', given instanceof Blob ? given : { texts: given }, signal)).json()
}

export async function nearWords(id: string, word: string, signal?: AbortSignal): Promise<NearWord[]> {
  return (await (await post(`/api/words/${encodeURIComponent(id)}/near`, { word }, signal)).json()).words
}

export async function analogyOf(id: string, first: string, second: string, third: string, signal?: AbortSignal): Promise<NearWord[]> {
  return (await (await post(`/api/words/${encodeURIComponent(id)}/analogy`, { first, second, third, count: 5 }, signal)).json()).words
}
