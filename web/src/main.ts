import { mount } from 'svelte'
import App from './App.svelte'
import { PAGES } from './pages'
import './style.css'

const target = document.getElementById('lab')!
target.replaceChildren() // the name that stands there until the scripts are read
mount(App, { target, props: { pages: PAGES } })
