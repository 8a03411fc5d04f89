// The pages of the lab: one file and one line each; pages.json has their order. A page gets the query of its address as `query`.
import type { Component } from 'svelte'

export interface Page {
  id: string
  title: string
  load: () => Promise<{ default: Component<{ query: Record<string, string> }> }>
}

export const PAGES: Page[] = [
  { id: 'start', title: 'Start', load: () => import('./pages/Start.svelte') },
  { id: 'lessons', title: 'Lessons', load: () => import('./pages/Lessons.svelte') },
  { id: 'cost', title: 'Cost', load: () => import('./pages/Cost.svelte') },
  { id: 'draw', title: 'Draw', load: () => import('./pages/Draw.svelte') },
  { id: 'embeddings', title: 'Embeddings', load: () => import('./pages/Embeddings.svelte') },
  { id: 'windows', title: 'Windows', load: () => import('./pages/Windows.svelte') },
  { id: 'landscape', title: 'Landscape', load: () => import('./pages/Landscape.svelte') },
  { id: 'compare', title: 'Compare', load: () => import('./pages/Compare.svelte') },
  { id: 'words', title: 'Words', load: () => import('./pages/Words.svelte') },
  { id: 'patches', title: 'Patches', load: () => import('./pages/Patches.svelte') },
  { id: 'positions', title: 'Positions', load: () => import('./pages/Positions.svelte') },
  { id: 'translate', title: 'Translate', load: () => import('./pages/Translate.svelte') },
  { id: 'runs', title: 'Runs', load: () => import('./pages/Runs.svelte') },
]
