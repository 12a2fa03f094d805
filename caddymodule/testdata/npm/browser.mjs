// Chromium, and the application that it comes back to. What a page of ours must never do is watched on every visit.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'

import { given } from './checks.mjs'
import { launch } from './chromium.mjs'

const { issuer, callback } = given

// The application listens where the configuration says, and a second time at a port that the configuration does not
// know, as applications on a device do (RFC 8252 §7.3).
const servers = [createServer(application), createServer(application)]
await listen(servers[0], new URL(callback).port)
export const loopback = `http://127.0.0.1:${await listen(servers[1], 0)}/callback`

const browser = await launch(given.flags)

export async function close() {
  await browser.close()
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
}

function listen(server, port) {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve(server.address().port))
  })
}

// home is where the application's pages are, at another origin than its callback.
export const home = new URL('/home', loopback).href

// The application shows what it was told, and frames what it is asked to. With the state `hop` its callback sends the
// browser on to its home first.
function application(req, res) {
  const url = new URL(req.url, callback)
  if (url.pathname === '/callback' && url.searchParams.get('state') === 'hop') {
    res.writeHead(302, { location: home + url.search }).end()
    return
  }
  const frame = url.searchParams.get('frame')
  const body = frame ? `<iframe src="${frame.replaceAll('&', '&amp;')}"></iframe>` : '<h1>Back at the application</h1>'
  res.setHeader('content-type', 'text/html')
  res.end(`<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>Application</title>${body}</html>`)
}

// ask makes an authorization request: where it begins, and what is needed to redeem its code.
export function ask(client, parameters = {}) {
  const verifier = randomBytes(32).toString('base64url')
  const redirectURI = parameters.redirect_uri ?? client.redirectURI ?? callback
  const state = parameters.state ?? randomBytes(8).toString('hex')
  const query = new URLSearchParams({
    client_id: client.id, redirect_uri: redirectURI, response_type: 'code', scope: 'public trusted', state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256', ...parameters,
  })
  return { client, verifier, redirectURI, state, url: `${issuer}/oauth/authorize?${query}` }
}

// arrive waits until a page is back at the application, and returns what the application was told.
export async function arrive(page, request, at = request.redirectURI) {
  await page.waitForURL((url) => url.href.startsWith(`${at}?`))
  await page.getByText('Back at the application').waitFor()
  const answer = new URL(page.url()).searchParams
  assert.equal(answer.get('state'), request.state)
  assert.equal(answer.get('iss'), issuer)
  return answer
}

// redeem exchanges the code of an answer and returns the status and the body.
export function redeem(request, answer) {
  return token({
    grant_type: 'authorization_code', code: answer.get('code'), redirect_uri: request.redirectURI,
    code_verifier: request.verifier, ...credentials(request.client),
  })
}

export const refresh = (client, refreshToken) =>
  token({ grant_type: 'refresh_token', refresh_token: refreshToken, ...credentials(client) })

const credentials = ({ id, secret }) => (secret ? { client_id: id, client_secret: secret } : { client_id: id })

async function token(form) {
  const response = await fetch(`${issuer}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) })
  return { status: response.status, ...(await response.json()) }
}

// subject is whom a token acts for.
export const subject = (accessToken) => JSON.parse(Buffer.from(accessToken.split('.')[1], 'base64url')).sub

// visit runs in a browser that knows nothing yet. Afterwards there must have been no error on any console, no violation of a policy, and no
// request to anybody but us and the application; but for what `expected` matches. With `last` the browser is closed afterwards.
export async function visit(run, { expected = /^$/, last = false, ...options } = {}) {
  const visitor = await someone({ viewport: { width: 1280, height: 800 }, locale: 'en-GB', colorScheme: 'light', reducedMotion: 'no-preference', ...options })
  const faults = []
  visitor.fault = (text) => expected.test(text) || faults.push(text)
  await run(visitor.page, visitor.context)
  assert.deepEqual(faults, [])
  if (last) await visitor.context.close()
  else await leave(visitor)
}

// Idle browsers, by their options. A new one costs half a second of processor time, so a visit takes an idle one if there is one.
const idle = {}

async function someone(options) {
  const kind = JSON.stringify(options)
  const one = idle[kind]?.pop()
  if (one) return one
  const context = await browser.newContext(options)
  const visitor = { kind, options, context, fault: () => {} }
  context.setDefaultTimeout(60_000)
  context.on('console', (m) => ['error', 'warning'].includes(m.type()) && visitor.fault(`console: ${m.text()} at ${m.location().url}`))
  context.on('weberror', (e) => visitor.fault(`script: ${e.error()}`))
  context.on('request', (r) => isOurs(r.url()) || visitor.fault(`request: ${r.url()}`))
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`))
  })
  visitor.page = await context.newPage()
  return visitor
}

// leave makes a browser forget the visit. It clears cookies alone, because our pages store nothing else.
async function leave(visitor) {
  const { page, context, options, kind } = visitor
  visitor.fault = () => {}
  for (const other of context.pages()) if (other !== page) await other.close()
  await page.goto('about:blank')
  await page.setViewportSize(options.viewport)
  await page.emulateMedia({ colorScheme: options.colorScheme, reducedMotion: options.reducedMotion })
  await context.unrouteAll()
  await context.clearCookies()
  ;(idle[kind] ??= []).push(visitor)
}

const ours = [issuer, callback, loopback, ...Object.values(given.applications ?? {}), ...(given.providers ?? [])].map((url) => new URL(url).origin)
const isOurs = (url) => url.startsWith('data:') || ours.includes(new URL(url).origin)

// signIn fills in the sign-in page.
export async function signIn(page, { email, password }) {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

export const allow = (page) => page.getByRole('button', { name: 'Allow' }).click()
export const deny = (page) => page.getByRole('button', { name: 'Deny' }).click()

// isAt waits for a page by its heading, and for the rest of it.
export async function isAt(page, title) {
  await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
  await page.waitForLoadState()
}

// press sends the form of a page that is there, and waits for all of the next one. A click alone may be over before the browser has
// left, and what is looked at then is the page before, or half of one.
export const press = (page, button) => Promise.all([page.waitForEvent('load'), page.click(button)])
