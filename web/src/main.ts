import { mount } from 'svelte'
import App from './App.svelte'
import { PAGES } from './pages'
import './style.css'

mount(App, { target: document.getElementById('lab')!, props: { pages: PAGES } })
