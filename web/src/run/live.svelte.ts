// The runs, kept up to date by one stream of events, which is open while the page is visible.
import { getJson } from '../server'
import type { Confusion, Detail, Job, Metric, Run, Step } from './types'

const MOST_STEPS = 4000

export class LiveRuns {
  list = $state.raw<Run[] | null>(null)
  details = $state.raw<Record<string, Detail>>({})
  jobs = $state.raw<Job[]>([])
  failure = $state('')
  isLost = $state(false)
  folder = ''
  private chosen: string[] = []
  private stream: EventSource | null = null
  private streamed = ''
  private timer: ReturnType<typeof setTimeout> | undefined
  private stopped = false

  constructor() {
    document.addEventListener('visibilitychange', this.onVisible)
    void this.refresh()
  }

  close(): void {
    this.stopped = true
    clearTimeout(this.timer)
    document.removeEventListener('visibilitychange', this.onVisible)
    this.disconnect()
  }

  private onVisible = (): void => {
    if (document.hidden) this.disconnect()
    else void this.refresh()
  }

  /** Reads the list and the jobs, and what is chosen and not read yet; then follows them. */
  async refresh(): Promise<void> {
    try {
      const [runs, jobs] = await Promise.all([
        getJson<{ runs: Run[]; folder: string }>('/api/runs'),
        getJson<{ jobs: Job[] }>('/api/jobs'),
      ])
      this.folder = runs.folder
      this.list = runs.runs
      const there = new Set(runs.runs.map((run) => run.id))
      this.details = Object.fromEntries(Object.entries(this.details).filter(([id]) => there.has(id)))
      this.jobs = jobs.jobs
      this.failure = ''
      if (runs.runs.some((run) => run.state === 'reading')) this.refreshSoon()
      await this.choose(this.chosen)
    } catch (error) {
      this.failure = (error as Error).message
      this.list ??= []
    }
  }

  /** Follows these runs; those that do not exist (yet) are followed when they appear. */
  async choose(ids: string[]): Promise<void> {
    this.chosen = ids
    if (this.list === null) return
    const there = ids.filter((id) => this.list!.some((run) => run.id === id))
    await Promise.all(there.filter((id) => !this.details[id]).map((id) => this.read(id)))
    if (ids === this.chosen && !this.stopped && !document.hidden) this.connect(there.filter((id) => this.details[id]))
  }

  private async read(id: string): Promise<void> {
    try {
      const found = await getJson<Detail>(`/api/runs/${encodeURIComponent(id)}`)
      this.details = { ...this.details, [id]: found }
    } catch (error) {
      this.failure = (error as Error).message
    }
  }

  private connect(ids: string[]): void {
    const key = ids.join('\n')
    if (this.stream && this.streamed === key && this.stream.readyState !== EventSource.CLOSED) return
    this.disconnect()
    const query = new URLSearchParams(ids.map((id) => ['run', id]))
    if (ids.length) query.set('after', ids.map((id) => this.positionOf(id)).join(','))
    const stream = new EventSource(`/api/events?${query}`)
    const on = <T>(name: string, take: (data: T) => void) =>
      stream.addEventListener(name, (event) => take(JSON.parse((event as MessageEvent).data)))
    on<{ run: string; records: Step[] }>('step', ({ run, records }) =>
      this.change(run, (one) => ({ steps: [...one.steps, ...records].slice(-MOST_STEPS) })))
    on<{ run: string; record: Metric }>('epoch', ({ run, record }) =>
      this.change(run, (one) => ({
        metrics: [...one.metrics.filter((metric) => metric.epoch! < record.epoch!), record],
        metric: one.metric || Object.keys(record).find((name) => name.startsWith('validation_') && name !== 'validation_loss')?.slice(11) || '',
      })))
    on<{ run: string; record: Confusion }>('confusion', ({ run, record }) =>
      this.change(run, (one) => ({ confusion: [...one.confusion.filter((matrix) => matrix.epoch < record.epoch), record] })))
    on<{ run: string; step: number; epoch: number }>('cut', ({ run, step, epoch }) =>
      this.change(run, (one) => ({
        steps: one.steps.filter((record) => record.step <= step),
        metrics: one.metrics.filter((record) => record.epoch! <= epoch),
        confusion: one.confusion.filter((matrix) => matrix.epoch <= epoch),
      })))
    on<Run & { run: string }>('state', (state) => this.takeState(state))
    on<{ run: string }>('gone', ({ run }) => {
      const { [run]: _, ...others } = this.details
      this.details = others
      this.refreshSoon()
    })
    on('list', () => this.refreshSoon())
    stream.onopen = () => (this.isLost = false)
    stream.onerror = () => (this.isLost = stream.readyState === EventSource.CLOSED)
    this.stream = stream
    this.streamed = key
  }

  private takeState(state: Run): void {
    const before = this.details[state.id]?.run
    this.list = (this.list ?? []).map((run) => (run.id === state.id ? state : run))
    this.change(state.id, () => ({ run: state }))
    const isNew = before && state.state !== 'broken' && (before.state !== state.state || before.score !== state.score)
    if (isNew) void this.read(state.id) // with its result and its mistakes
  }

  private change(id: string, what: (detail: Detail) => Partial<Detail>): void {
    const detail = this.details[id]
    if (detail) this.details = { ...this.details, [id]: { ...detail, ...what(detail) } }
  }

  private positionOf(id: string): string {
    const { steps, metrics } = this.details[id]
    return `${steps.at(-1)?.step ?? 0}.${metrics.at(-1)?.epoch ?? 0}`
  }

  private refreshSoon(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => void this.refresh(), 400)
  }

  private disconnect(): void {
    this.stream?.close()
    this.stream = null
  }
}
