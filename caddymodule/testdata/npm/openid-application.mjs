// The application of the OpenID modules: where browsers come back to, and where it is told of a sign-out.

import assert from 'node:assert/strict'
import { createServer as createPlainServer } from 'node:http'
import { createServer } from 'node:https'

import { given } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { callback } = given
export const signedOut = new URL('/signed-out', callback).href
const start = new URL('/start', callback).href

const web = createServer({ cert: given.certificate, key: given.key }, (req, res) => {
  res.setHeader('content-type', 'text/html')
  res.end('<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>Application</title><body class="application">')
})

// told is what the provider has sent.
const told = []
let notice = () => {}
const behind = createPlainServer(async (req, res) => {
  let body = ''
  for await (const piece of req.setEncoding('utf8')) body += piece
  told.push({ method: req.method, path: req.url, headers: req.headers, body })
  res.setHeader('cache-control', 'no-store')
  res.end()
  notice()
})

await listen(web, new URL(callback))
await listen(behind, new URL(given.backchannel))

function listen(server, { port, hostname }) {
  return new Promise((resolve, reject) => server.once('error', reject).listen(port, hostname, resolve))
}

export function stop() {
  for (const server of [web, behind]) {
    server.close()
    server.closeAllConnections()
  }
}

// beTold waits until the provider has sent something that matches.
export async function beTold(matches) {
  for (const deadline = Date.now() + 30_000; ;) {
    const found = told.find(matches)
    if (found) return found
    const left = deadline - Date.now()
    assert.ok(left > 0, 'the provider has told nothing of the sign-out')
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, left)
      notice = () => (clearTimeout(timer), resolve())
    })
  }
}

// Walker is a Person without a browser, for where nothing is to be seen.
export class Walker extends Visitor {
  async visit(url, form) {
    return { method: 'GET', url: await this.authorize(url, given.ada, form), headers: {}, body: '' }
  }

  leave() {}
}

const idle = []

// Person is somebody with Chromium, who signs in, allows and confirms. `seen` are the pages of the last visit, by name.
export class Person {
  seen = []

  constructor(context, page) {
    Object.assign(this, { context, page })
    page.on('request', (request) => {
      const url = new URL(request.url())
      if (!request.isNavigationRequest() || url.origin !== new URL(callback).origin || url.href === start) return
      this.arrival = { method: request.method(), url, headers: request.headers(), body: request.postData() }
    })
  }

  static async with(browser) {
    if (idle.length > 0) return idle.pop()
    const context = await browser.newContext({ ignoreHTTPSErrors: true, locale: 'en-GB' })
    context.setDefaultTimeout(30_000)
    return new Person(context, await context.newPage())
  }

  // leave leaves a browser that nobody knows to whoever comes next.
  async leave() {
    await this.context.clearCookies()
    idle.push(this)
  }

  // visit goes to a URL, or posts a form to it, and answers the pages until it is at the application, whose arrival it returns. It
  // returns nothing when it ends on another page, which is still there to be looked at.
  async visit(url, form) {
    this.seen = []
    this.arrival = undefined
    if (form) await this.post(url, form)
    else await this.page.goto(url, { waitUntil: 'commit' })
    for (let step = 0; step < 10; step++) {
      const name = await this.settle()
      if (name === 'application') return this.arrival
      this.seen.push(name)
      if (!(await this.answer(name))) return
    }
    throw new Error(`the visit has no end: ${this.seen}`)
  }

  // post leaves a page of the application by a form.
  async post(url, form) {
    await this.page.goto(start)
    await this.page.evaluate(({ url, fields }) => {
      const form = document.body.appendChild(document.createElement('form'))
      Object.assign(form, { method: 'post', action: url })
      for (const [name, value] of fields) {
        form.appendChild(Object.assign(document.createElement('input'), { type: 'hidden', name, value }))
      }
    }, { url: String(url), fields: [...new URLSearchParams(form)] })
    await this.press(() => this.page.evaluate(() => document.forms[0].submit()))
  }

  // settle waits for a page on which somebody stays, and returns its name.
  async settle() {
    const names = ['application', 'signin', 'consent', 'signout', 'account', 'problem']
    await this.page.locator(names.map((name) => `body.${name}`).join()).waitFor({ state: 'attached' })
    await this.page.waitForLoadState()
    return this.page.evaluate(() => document.body.className)
  }

  async answer(name) {
    if (name === 'signin') {
      await this.page.fill('#email', given.ada.email)
      await this.page.fill('#password', given.ada.password)
    } else if (name !== 'consent' && !(await this.asksToSignOut(name))) {
      return false
    }
    await this.press(() => this.page.click('button.primary'))
    return true
  }

  async asksToSignOut(name) {
    return name === 'signout' && (await this.page.locator('form button.primary').count()) > 0
  }

  press(leave) {
    return Promise.all([this.page.waitForEvent('framenavigated'), leave()])
  }
}
