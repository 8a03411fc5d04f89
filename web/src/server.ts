// The answers of the server; in a handout, what the file itself contains.
import type { CostJson } from './model/cost'
import type { ModelCard } from './model/vit'

export interface LabModel {
  id: string
  name: string
  source: string
  kind: string
  model: string
  labels: string[]
  image: number[] | null
}

export interface RegistryModel {
  name: string
  family: string
  title?: string
  parameters: number | null
  macs: number | null
  input: number[]
}

interface Handout {
  pages: string[]
  model: LabModel
  config: ModelCard
  weights: string
  cost: CostJson
}

declare global {
  interface Window {
    __HANDOUT__?: Handout
  }
}

export const handout = window.__HANDOUT__

export class LabError extends Error {}

async function request(path: string, signal?: AbortSignal, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(path, { ...options, signal, credentials: 'same-origin' })
  if (response.ok) return response
  const found = await response.json().catch(() => null)
  const error = found?.error
  if (!error?.what) throw new LabError(`The lab answered ${response.status}.`)
  const details = [error.expected && `expected ${error.expected}`, error.got && `got ${error.got}`, error.hint]
  throw new LabError([error.what, ...details.filter(Boolean)].join('; '))
}

/** The answer to GET as JSON. */
export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request(path, signal)).json()
}

/** The answer to GET as bytes, e.g. arrays. */
export async function getBytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  return (await request(path, signal)).arrayBuffer()
}

/** The response to POST with JSON, or with the bytes of one file. */
export async function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const isFile = body instanceof Blob || body instanceof ArrayBuffer
  const type = isFile ? 'application/octet-stream' : 'application/json'
  return request(path, signal, { method: 'POST', headers: { 'content-type': type }, body: isFile ? (body as Blob) : JSON.stringify(body) })
}

/** Asks at once, and drops the answer once it is obsolete. Returns what ends it, for an effect to return. */
export function asking<T>(question: (signal: AbortSignal) => Promise<T>, done: (answer: T) => void, failed: (message: string) => void): () => void {
  const stop = new AbortController()
  question(stop.signal).then(
    (answer) => {
      if (!stop.signal.aborted) done(answer)
    },
    (error: Error) => {
      if (!stop.signal.aborted) failed(error.message)
    },
  )
  return () => stop.abort()
}

/** The same some milliseconds after the last change. */
export function later<T>(wait: number, question: (signal: AbortSignal) => Promise<T>, done: (answer: T) => void, failed: (message: string) => void): () => void {
  let end: (() => void) | undefined
  const timer = setTimeout(() => (end = asking(question, done, failed)), wait)
  return () => {
    clearTimeout(timer)
    end?.()
  }
}

export async function labModels(): Promise<LabModel[]> {
  if (handout) return [handout.model]
  return (await (await request('/api/lab')).json()).models
}

export async function registry(): Promise<RegistryModel[]> {
  if (handout) return [{ name: handout.cost.model, family: 'vit', parameters: handout.cost.parameters, macs: handout.cost.macs.total, input: handout.cost.input.slice(1) }]
  return (await (await request('/api/registry')).json()).models
}

/** Returns null in a handout, which has no other costs than its own. */
export async function costOf(model: string, fields: Record<string, number> = {}, signal?: AbortSignal): Promise<CostJson | null> {
  if (handout) return model === handout.cost.model && !Object.keys(fields).length ? handout.cost : null
  const query = new URLSearchParams({ model })
  for (const [name, value] of Object.entries(fields)) query.set(name, String(value))
  return (await request(`/api/cost?${query}`, signal)).json()
}

export async function cardOf(id: string): Promise<ModelCard> {
  if (handout) return handout.config
  return (await request(`/api/models/${encodeURIComponent(id)}/config`)).json()
}

export async function weightsOf(id: string): Promise<ArrayBuffer> {
  if (handout) return Uint8Array.from(atob(handout.weights), (character) => character.charCodeAt(0)).buffer as ArrayBuffer
  return (await request(`/api/models/${encodeURIComponent(id)}/weights`)).arrayBuffer()
}
