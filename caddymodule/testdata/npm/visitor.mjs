// A person whose browser shows nothing: it follows redirects, keeps cookies and fills in the forms of the pages.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { request as requestTLS } from 'node:https'

export class Visitor {
  cookies = new Map()
  seen = [] // the pages of the last walk: signin, consent

  constructor(issuer) {
    this.issuer = issuer
  }

  // authorize walks from an authorization URL, or a form that is posted there, to the application, and returns where the browser is
  // sent there.
  async authorize(url, { email, password, decision = 'allow', untick = [] } = {}, posted) {
    let next = { url: new URL(url), form: posted }
    this.seen = []
    for (let step = 0; step < 10; step++) {
      const { status, location, text } = await this.fetch(next)
      if (status === 303) {
        const url = new URL(location, next.url)
        if (url.origin !== new URL(this.issuer).origin) return url
        next = { url }
        continue
      }
      assert.equal(status, 200, text)
      next = this.fill(text, next.url, { email, password, decision, untick })
    }
    throw new Error('the walk has no end')
  }

  // fetch sends a form, or gets a page. It is not the fetch of Node 18 in Debian 12, which joins the lines of Set-Cookie.
  async fetch({ url, form }) {
    const headers = { cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ') }
    if (form) headers['content-type'] = 'application/x-www-form-urlencoded'
    const message = (url.protocol === 'https:' ? requestTLS : request)(url, { method: form ? 'POST' : 'GET', headers })
    message.end(form?.toString())
    const [response] = await once(message, 'response')
    for (const line of response.headers['set-cookie'] ?? []) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/)
      if (/max-age=(0|-\d+)/i.test(line)) this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    response.setEncoding('utf8')
    let text = ''
    for await (const piece of response) text += piece
    return { status: response.statusCode, location: response.headers.location, text }
  }

  // fill answers the sign-in page and the consent page.
  fill(page, base, { email, password, decision, untick }) {
    const inputs = [...page.matchAll(/<input\b[^>]*>/g)].map(([tag]) => attributes(tag))
    const form = new URLSearchParams()
    for (const { type, name, value } of inputs) if (type === 'hidden') form.set(name, value)
    const asksPassword = inputs.some(({ name }) => name === 'password')
    this.seen.push(asksPassword ? 'signin' : 'consent')
    if (asksPassword) {
      assert.ok(email, 'the page asks to sign in')
      form.set('email', email)
      form.set('password', password)
    } else {
      assert.match(page, /name="decision"/)
      const ticked = inputs.filter(({ type }) => type === 'checkbox').map(({ name }) => name)
      for (const name of ticked) if (!untick.includes(name)) form.set(name, 'on')
      form.set('decision', decision)
    }
    return { url: new URL(attributes(page.match(/<form\b[^>]*>/)[0]).action, base), form }
  }
}

function attributes(tag) {
  const found = {}
  for (const [, name, value] of tag.matchAll(/([a-z-]+)="([^"]*)"/g)) found[name] = unescape(value)
  return found
}

function unescape(text) {
  return text.replace(/&#(\d+);/g, (_, n) => String.fromCodePoint(n)).replaceAll('&amp;', '&')
}
