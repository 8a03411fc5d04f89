// The entry of a handout: one classic script with the pages that need no server.
import { mount } from 'svelte'
import App from './App.svelte'
import Cost from './pages/Cost.svelte'
import Draw from './pages/Draw.svelte'
import type { Page } from './pages'
import { handout } from './server'
import './style.css'

const PAGES: Page[] = [
  { id: 'cost', title: 'Cost', load: async () => ({ default: Cost }) },
  { id: 'draw', title: 'Draw', load: async () => ({ default: Draw }) },
]

mount(App, { target: document.getElementById('lab')!, props: { pages: PAGES.filter((page) => handout!.pages.includes(page.id)) } })
