// A person with Chromium at three hosts: the issuer, and two applications behind the gate. Their upstream is here.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'

import { close, isAt, press, signIn, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { look } from './looks.mjs'

const { ada, ben, eve } = given
const { app, wiki } = given.applications
const { issuer } = given
const hostCookie = 'gatehouse_session'
const refusals = /status of 40[013]|WebSocket connection to/ // what the console says of requests that are refused, and of sockets that are cut

// The upstream of both applications: it says who it is told is calling, and keeps what is saved.
const saved = []
const upstream = createServer(async (request, response) => {
  let body = ''
  for await (const piece of request) body += piece
  if (request.method === 'POST') saved.push([request.headers['x-auth-subject'], new URLSearchParams(body).get('text')])
  const said = request.method === 'POST' ? `saved ${new URLSearchParams(body).get('text')}` : `${request.url} for ${request.headers['x-auth-subject']}`
  response.setHeader('content-type', 'text/html; charset=utf-8')
  response.end(`<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>Application</title><h1>${said.replaceAll('&', '&amp;')}</h1>
<form method="post" action="/save"><label>Text <input name="text"></label><button>Save</button></form></html>`)
})
const sockets = new WebSocketServer({ server: upstream })
sockets.on('connection', (socket, request) => socket.send(request.headers['x-auth-subject']))
upstream.listen(new URL(given.upstream).port, '127.0.0.1')
await once(upstream, 'listening')

// A user whom the configuration does not declare, who can be disabled.
const operate = (path, body) => fetch(given.admin + path, { method: 'POST', headers: { origin: given.admin, 'content-type': 'application/json' }, body: JSON.stringify(body) })
const added = await operate('/oauth/users', { ...eve, organisation: 'acme' })
assert.equal(added.status, 201, await added.text())

const says = (page, words) => page.getByRole('heading', { level: 1, name: words, exact: true }).waitFor()
const forget = (context, origin) => context.clearCookies({ name: hostCookie, domain: new URL(origin).hostname })

async function arriveAs(page, person, url = `${app}/start`) {
  await page.goto(url)
  await signIn(page, person)
  await says(page, `${url.slice(new URL(url).origin.length)} for ${person.id}`)
}

check('S47 one sign-in serves all hosts, in several tabs, and back goes to where the person came from', () => visit(async (page, context) => {
  const deep = `${app}/deep/link%20x?q=1&r=%C3%A4`
  const other = await context.newPage()
  await page.goto(deep)
  await other.goto(`${app}/tab`) // both tabs show the sign-in page
  await signIn(page, ada)
  await says(page, '/deep/link%20x?q=1&r=%C3%A4 for u-ada')
  assert.equal(page.url(), deep)
  await signIn(other, ada)
  await says(other, '/tab for u-ada')
  await other.goto(`${wiki}/pages/1`)
  await says(other, '/pages/1 for u-ada')
  await page.goto(`${app}/second`)
  await page.goBack()
  await says(page, '/deep/link%20x?q=1&r=%C3%A4 for u-ada')
  for (const origin of [app, wiki]) {
    const cookie = (await context.cookies(origin)).find(({ name }) => name === hostCookie)
    assert.ok(cookie?.httpOnly && cookie.sameSite === 'Lax' && cookie.path === '/' && cookie.domain === new URL(origin).hostname, JSON.stringify(cookie))
  }
}))

check('S113 two tabs at the very first visit, whose answers set each their own cookies, both come to their pages', async () => {
  for (const order of [[0, 1], [1, 0]]) {
    await visit(async (page, context) => {
      const tabs = [page, await context.newPage()]
      for (const [i, tab] of tabs.entries()) {
        await context.clearCookies() // as if both had asked before the first answer came
        await tab.goto(`${app}/first/${i}`)
        await isAt(tab, 'Sign in')
      }
      for (const i of order) {
        await signIn(tabs[i], ada)
        if (order[0] === 0 && i === 0) { // its form is of a cookie that was replaced, and nobody has signed in yet
          await tabs[i].getByText('This page was open in another tab too').waitFor()
          await signIn(tabs[i], ada)
        }
        await says(tabs[i], `/first/${i} for u-ada`)
        assert.equal(tabs[i].url(), `${app}/first/${i}`)
      }
    }, { expected: refusals })
  }
})

check('S48 a form that is sent after the end is not lost: sign in in a new tab, and load the page again', () => visit(async (page, context) => {
  await arriveAs(page, ada)
  await page.getByLabel('Text').fill('ein Entwurf & mehr')
  await forget(context, app)
  const before = saved.length
  const [answer] = await Promise.all([page.waitForResponse((r) => r.request().method() === 'POST'), page.getByRole('button', { name: 'Save' }).click()])
  assert.equal(answer.status(), 401)
  await isAt(page, 'Please sign in again')
  assert.equal(saved.length, before)
  const [tab] = await Promise.all([context.waitForEvent('page'), page.getByRole('link', { name: 'Sign in in a new tab' }).click()])
  await isAt(tab, 'You are signed in')
  await tab.close()
  await page.reload()
  await says(page, 'saved ein Entwurf & mehr')
  assert.deepEqual(saved.slice(before), [['u-ada', 'ein Entwurf & mehr']])
}, { expected: refusals }))

check('S49 a fetch after the end is a 401 with a challenge, and passes again once another tab has signed in', () => visit(async (page, context) => {
  await arriveAs(page, ada)
  const call = (method) => page.evaluate(async (method) => {
    const answer = await fetch('/data', { method, headers: { accept: 'application/json' } })
    return [answer.status, answer.redirected, answer.headers.get('www-authenticate')?.split(' ')[0]]
  }, method)
  assert.deepEqual(await call('GET'), [200, false, undefined])
  await forget(context, app)
  assert.deepEqual(await call('GET'), [401, false, 'Bearer'])
  assert.deepEqual(await call('POST'), [401, false, 'Bearer'])
  const tab = await context.newPage()
  await tab.goto(`${app}/again`) // the sign-in lives, so nobody is asked
  await says(tab, '/again for u-ada')
  assert.deepEqual(await call('POST'), [200, false, undefined])
}, { expected: refusals }))

// open opens a WebSocket from a page, and keeps it there.
const open = (page) => page.evaluate(() => new Promise((resolve) => {
  const socket = new WebSocket(`ws://${location.host}/socket`)
  globalThis.ended = new Promise((done) => { socket.onclose = () => done('closed') })
  socket.onmessage = ({ data }) => resolve(data)
  socket.onerror = () => resolve('refused')
}))
const ended = (page) => page.evaluate(() => globalThis.ended)

check('S50 a WebSocket has the session of its page, and ends with the sign-out at another host', () => visit(async (page, context) => {
  await arriveAs(page, ada)
  assert.equal(await open(page), 'u-ada')
  const tab = await context.newPage()
  await tab.goto(`${wiki}/pages/1`)
  await says(tab, '/pages/1 for u-ada')
  await tab.goto(`${wiki}/oauth/sign_out`)
  await press(tab, 'button.primary')
  await isAt(tab, 'You are signed out')
  assert.equal(await ended(page), 'closed')
  assert.equal(await open(page), 'refused')
  await page.goto(`${app}/start`)
  await isAt(page, 'Sign in')
}, { expected: refusals }))

check('after a sign-out the back button shows no page of the host', () => visit(async (page) => {
  await arriveAs(page, ada)
  await page.goto(`${app}/second`)
  await says(page, '/second for u-ada')
  await page.goto(`${app}/oauth/sign_out`)
  await press(page, 'button.primary')
  await isAt(page, 'You are signed out')
  const shown = []
  while (shown.length < 4 && !shown.includes('Sign in')) {
    await page.goBack()
    shown.push(await page.locator('h1').textContent())
  }
  assert.ok(!shown.some((words) => words.includes('u-ada')), shown.join(' · '))
  assert.ok(shown.includes('Sign in'), shown.join(' · '))
}, { expected: refusals }))

check('a sign-out at a host where the browser never was ends the sign-in', () => visit(async (page) => {
  await arriveAs(page, ada)
  await page.goto(`${wiki}/oauth/sign_out`)
  await isAt(page, 'Sign out?')
  await press(page, 'button.primary')
  await isAt(page, 'You are signed out')
  await page.goto(`${app}/start`)
  await isAt(page, 'Sign in')
}, { expected: refusals }))

check('the back button leads to no second session of a host on the account page', () => visit(async (page) => {
  await arriveAs(page, ada)
  for (let round = 0; round < 2; round++) { // the address at which the sign-in page stood answers anew
    await page.goBack()
    await page.goForward().catch(() => {})
  }
  await page.goto(`${issuer}/oauth/account`)
  assert.equal(await page.locator('.hosts').first().getByText(new URL(app).host, { exact: true }).count(), 1)
}, { expected: refusals }))

// post has a page send a form to another address.
const post = (page, action) => page.evaluate((action) => {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = action
  document.body.append(form)
  form.submit()
}, action)

check('a form of a sibling host is answered by a page', () => visit(async (page) => {
  await arriveAs(page, ada, `${wiki}/pages/1`)
  await page.goto(`${app}/start`)
  const before = saved.length
  await page.goto(`${wiki}/pages/1`)
  await post(page, `${app}/save`)
  await isAt(page, 'This form came from another site')
  assert.equal(saved.length, before)
}, { expected: refusals }))

check('a deep link of 6,000 characters', () => visit(async (page) => {
  let query = ''
  for (let i = 0; query.length < 5900; i++) query += `filter%5B${i}%5D=value+${(i * 7919).toString(36)}&`
  await page.goto(`${app}/deep?${query}end=1`)
  await signIn(page, ada)
  await page.waitForURL(`${app}/deep?${query}end=1`)
}, { expected: refusals }))

check('S51 a user who is disabled in the middle is out at every host', () => visit(async (page, context) => {
  await arriveAs(page, eve)
  const tab = await context.newPage()
  await tab.goto(`${wiki}/pages/1`)
  await says(tab, '/pages/1 for u-eve')
  assert.equal(await open(page), 'u-eve')
  const answer = await operate('/oauth/users/u-eve/disable')
  assert.ok(answer.ok, await answer.text())
  assert.equal(await ended(page), 'closed')
  for (const p of [page, tab]) {
    await p.reload()
    await isAt(p, 'Sign in')
  }
}, { expected: refusals }))

check('S52 a cookie that another host or port places lets nobody in: two different ones are refused', () => visit(async (page, context) => {
  await arriveAs(page, ada)
  const { hostname } = new URL(app)
  const stranger = { name: hostCookie, value: 'stranger', path: '/' }
  await context.addCookies([{ ...stranger, domain: hostname, path: '/deep' }, { ...stranger, domain: `.${hostname}` }])
  for (const path of ['/deep/x', '/start']) {
    assert.equal((await page.goto(`${app}${path}`)).status(), 400)
  }
  // The cookie of one host at the other is worth nothing there.
  const { value } = (await context.cookies(app)).find((c) => c.name === hostCookie && c.value !== 'stranger')
  await visit(async (page, context) => {
    await context.addCookies([{ ...stranger, value, domain: new URL(wiki).hostname }])
    await page.goto(`${wiki}/pages/1`)
    await isAt(page, 'Sign in')
  })
}, { expected: refusals }))

check('S53 several groups: who may not open an application takes another account, and comes back to its page', () => visit(async (page) => {
  await arriveAs(page, ben)
  await page.goto(`${app}/ops/x`)
  await says(page, '/ops/x for u-ben')
  await page.goto(`${app}/engineering/a%20b?q=1`)
  await isAt(page, 'You may not open this page')
  const words = await page.getByRole('main').textContent()
  assert.ok(words.includes(ben.email) && !words.includes('engineering'), words)
  await page.getByRole('link', { name: 'Use another account' }).click()
  await signIn(page, ada)
  await says(page, '/engineering/a%20b?q=1 for u-ada')
  await page.goto(`${app}/ops/x`)
  await isAt(page, 'You may not open this page')
  await page.getByRole('link', { name: 'Sign out' }).click()
  await press(page, 'button.primary')
  await isAt(page, 'You are signed out')
}, { expected: refusals }))

// The pages that people see.
const states = {
  'host-sign-in': (page) => page.goto(`${app}/start`),
  'host-denied': async (page) => {
    await page.fill('#email', ben.email)
    await page.fill('#password', ben.password)
    await press(page, 'button.primary')
    await page.goto(`${app}/engineering/x`)
  },
  'host-sign-out': (page) => page.goto(`${app}/oauth/sign_out`),
  'host-interrupted': async (page, context) => {
    await page.goto(`${app}/start`)
    await forget(context, app)
    await press(page, 'button')
  },
  'host-signed-in': (page) => page.goto(`${app}/oauth/sign_in`),
  'host-foreign': async (page) => {
    await page.goto(`${wiki}/pages/1`)
    await post(page, `${app}/save`)
    await page.waitForURL(`${app}/save`)
  },
  'host-refused': (page) => page.goto(`${app}/a/..;/b`),
  'host-shortened': async (page, context) => {
    await forget(context, app)
    await page.goto(`${app}/x?q=${randomBytes(10200).toString('base64url')}`) // which cannot be packed into less room
  },
  'issuer-sign-out': (page) => page.goto(`${issuer}/oauth/logout`),
  'issuer-account': (page) => page.goto(`${issuer}/oauth/account`),
  'issuer-front': (page) => page.goto(issuer),
}

for (const [language, locale] of [['en', 'en-GB'], ['de', 'de-DE']]) {
  check(`S54 the pages of hosts, in ${language}`, () => visit(async (page, context) => {
    for (const [state, go] of Object.entries(states)) {
      await go(page, context)
      await look(page, state, language)
    }
  }, { locale, expected: refusals }))
}

await runChecks(async () => {
  await close()
  sockets.close()
  for (const socket of sockets.clients) socket.terminate()
  upstream.closeAllConnections()
  upstream.close()
})
