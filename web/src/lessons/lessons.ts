// The lessons of the server, and the places in them.
import { getJson } from '../server'
import { addressOf, readAddress, type Place } from '../state'

export interface Span {
  kind: 'text' | 'emphasis' | 'strong' | 'code' | 'link'
  text: string
  to: string
}

export interface Step {
  title: string
  view: string
  text: Span[]
  task: Span[]
}

export interface Lesson {
  name: string
  title: string
  about: string
  own: boolean
  steps: Step[]
}

let found: Promise<Lesson[]> | undefined

export function lessons(): Promise<Lesson[]> {
  found ??= getJson<{ lessons: Lesson[] }>('/api/lessons').then(
    (answer) => answer.lessons,
    (error) => {
      found = undefined
      throw error
    },
  )
  return found
}

/** The address of the view of a step, with the lesson. step: from 1. */
export function addressOfStep(lesson: Lesson, step: number): string {
  const { page, query } = readAddress(lesson.steps[step - 1].view)
  return addressOf(page, query, { name: lesson.name, step })
}

/** The place a number of steps further, within the lesson. */
export function moved(lesson: Lesson, place: Place, by: number): number | null {
  const step = place.step + by
  return step >= 1 && step <= lesson.steps.length ? step : null
}
