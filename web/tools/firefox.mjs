// Opens pages of a running lab in Firefox, over WebDriver BiDi, and prints what they report as JSON.
// node tools/firefox.mjs FIREFOX ADDRESS '{"#/cost": "[data-check=agrees]"}'
import puppeteer from 'puppeteer-core'

const [executablePath, address, ready] = process.argv.slice(2)
const browser = await puppeteer.launch({ browser: 'firefox', executablePath, headless: true, timeout: 120_000, defaultViewport: null, args: ['--width=1366', '--height=768'] })
const found = {}
try {
  const page = await browser.newPage()
  let messages = []
  page.on('console', (message) => ['error', 'warn'].includes(message.type()) && messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  await page.goto(address)
  for (const [hash, selector] of Object.entries(JSON.parse(ready))) {
    messages = []
    await page.evaluate((hash) => (location.hash = hash), hash)
    const isReady = await page.waitForSelector(selector, { visible: true, timeout: 60_000 }).then(() => true, () => false)
    found[hash] = isReady ? messages : [...messages, `${selector} never appeared`]
  }
} finally {
  await browser.close()
}
console.log(JSON.stringify(found))
