// Copies the list of pages, by which the server checks the views of lessons, and writes built.json: the SHA-256 of every source file and of every file of the page.
import { createHash } from 'node:crypto'
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const web = fileURLToPath(new URL('..', import.meta.url))
const page = join(web, '../src/patchword/lab/page')
const SKIPPED = new Set(['node_modules', 'package-lock.json', '.vite', 'built.json'])

function files(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !SKIPPED.has(entry.name))
    .flatMap((entry) => (entry.isDirectory() ? files(join(folder, entry.name)) : [join(folder, entry.name)]))
}

function hashes(folder) {
  const names = files(folder).map((path) => relative(folder, path).split(sep).join('/')).sort()
  return Object.fromEntries(names.map((name) => [name, createHash('sha256').update(readFileSync(join(folder, name))).digest('hex')]))
}

copyFileSync(join(web, 'src/pages.json'), join(page, 'assets/pages.json'))
const found = { comment: 'Written by `make web`; tests/units/lab/test_bundle.py compares it with the files.', sources: hashes(web), page: hashes(page) }
writeFileSync(join(page, 'built.json'), JSON.stringify(found, null, 1) + '\n')
