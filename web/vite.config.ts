// Two bundles: the page (modules with stable names, one chunk per page), and with --mode handout one classic script.
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

const output = '../src/patchword/lab/page'

export default defineConfig(({ mode }) => {
  const isHandout = mode === 'handout'
  return {
    base: './',
    plugins: [svelte()],
    build: {
      outDir: output,
      emptyOutDir: !isHandout,
      sourcemap: false,
      target: 'es2022',
      modulePreload: { polyfill: false },
      cssCodeSplit: !isHandout,
      assetsInlineLimit: 0,
      reportCompressedSize: false,
      rolldownOptions: isHandout
        ? {
            input: 'src/handout.ts',
            transform: { define: { 'import.meta': '{}' } },
            output: { format: 'iife' as const, entryFileNames: 'assets/handout.js', assetFileNames: 'assets/handout[extname]' },
          }
        : {
            // The models are entries of their own, so that the tests can import what is shipped.
            input: { lab: 'index.html', vit: 'src/model/vit.ts', formulas: 'src/model/cost.ts', surface: 'src/landscape/surface.ts', encodings: 'src/positions/encodings.ts' },
            preserveEntrySignatures: 'strict' as const,
            output: {
              entryFileNames: 'assets/[name].js',
              chunkFileNames: 'assets/[name].js',
              codeSplitting: {
                groups: [
                  { name: 'model', test: /src\/model\/(vit|safetensors)\.ts/ },
                  { name: 'formulas', test: /src\/model\/cost\.ts/ },
                  { name: 'encodings', test: /src\/positions\/encodings\.ts/ },
                  { name: 'svelte', test: /node_modules|preload-helper/ },
                  { name: 'common', test: /src\/((state|server)\.ts|words\/common\.ts|outline\.ts|pages\.json|words\/shell\.ts|parts\/(Slider|Exports)\.svelte|figures\/\w+\.ts)/ },
                  // Alike, and small apart: the styles of all pages but the first, and the parts of one page.
                  { name: 'pages', test: /src\/(?!App|shell\/Header|pages\/Start)[\w/]+\.svelte\?.*type=style/ },
                  { name: 'parts', test: /src\/parts\/(Canvas|ProbabilityFigure)\.svelte$/ },
                  { name: 'texts', test: /src\/(texts|words\/texts\.ts)/ },
                  { name: 'positions', test: /src\/positions\// },
                  { name: 'points', test: /src\/embeddings\/(PointTable|SelectionCard)/ }, // alike, too
                ],
              },
              assetFileNames: 'assets/[name][extname]',
            },
          },
    },
  }
})
