// Drives Gatehouse with passport-oauth2 in an application of its own, at the registered redirect URI: the strategy keeps
// state and verifier in the application's session, and exchanges the code when the browser comes back.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import passport from 'passport'
import OAuth2Strategy, { AuthorizationError, TokenError } from 'passport-oauth2'

import { check, given, runChecks } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, callback, route, ada, bob } = given
const { conf, spa } = given.clients
const application = new URL(callback).origin

function strategy(client, options = {}) {
  return new OAuth2Strategy({
    authorizationURL: `${issuer}/oauth/authorize`, tokenURL: `${issuer}/oauth/token`, callbackURL: callback,
    clientID: client.id, clientSecret: client.secret, scope: ['public', 'trusted'], state: true, pkce: true, ...options,
  }, (accessToken, refreshToken, params, profile, done) => done(null, { accessToken, refreshToken, params }))
}

passport.use('confidential', strategy(conf))
passport.use('public', strategy(spa))
passport.use('without PKCE', strategy(conf, { pkce: false }))
passport.use('public without PKCE', strategy(spa, { pkce: false }))
passport.use('wrong secret', strategy({ id: conf.id, secret: 'wrong' }))

// The application answers with what passport told it, as JSON.
const sessions = new Map()
const server = createServer((req, res) => {
  req.query = Object.fromEntries(new URL(req.url, application).searchParams)
  const id = /sid=([0-9a-f-]+)/.exec(req.headers.cookie)?.[1] ?? randomUUID()
  if (!sessions.has(id)) sessions.set(id, {})
  req.session = sessions.get(id)
  res.setHeader('set-cookie', `sid=${id}; HttpOnly; SameSite=Lax`)
  const name = req.query.strategy ?? req.session.strategy
  req.session.strategy = name
  passport.authenticate(name, { session: false }, (err, user, info) => {
    const error = err && { type: err.constructor.name, code: err.code, description: err.message }
    res.end(JSON.stringify({ user: user || undefined, error: error ?? undefined, info }))
  })(req, res)
})
await new Promise((resolve) => server.listen(new URL(callback).port, '127.0.0.1', resolve))

// signIn begins at the application, as a person would, and returns the visitor and what the application said.
async function signIn(name, { person = ada, tamper = () => {} } = {}) {
  const visitor = new Visitor(issuer)
  const begin = await visitor.fetch({ url: `${application}/?strategy=${encodeURIComponent(name)}` })
  assert.equal(begin.status, 302)
  const answer = await visitor.authorize(begin.location, person)
  tamper(answer.searchParams)
  return { visitor, answer, ...JSON.parse((await visitor.fetch({ url: answer })).text) }
}

async function gate(token) {
  return (await fetch(route, { headers: { authorization: `Bearer ${token}` } })).status
}

// refresh asks the strategy's own client, as passport-oauth2-refresh does.
function refresh(name, token) {
  const { _oauth2: client } = passport._strategy(name)
  return new Promise((resolve, reject) => {
    client.getOAuthAccessToken(token, { grant_type: 'refresh_token' }, (err, accessToken, refreshToken, params) =>
      err ? reject(new Error(`${err.statusCode} ${err.data}`)) : resolve({ accessToken, refreshToken, params }))
  })
}

for (const name of ['confidential', 'public', 'without PKCE']) {
  check(`${name}: sign-in, refresh and its repeat`, async () => {
    const { user, error } = await signIn(name)
    assert.equal(error, undefined)
    assert.equal(user.params.token_type, 'Bearer')
    assert.equal(user.params.scope, 'public trusted')
    assert.equal(user.params.expires_in, 21600)
    assert.equal(await gate(user.accessToken), 200)

    const next = await refresh(name, user.refreshToken)
    assert.notEqual(next.refreshToken, user.refreshToken)
    assert.equal(await gate(next.accessToken), 200)
    assert.equal((await refresh(name, user.refreshToken)).refreshToken, next.refreshToken)
    await refresh(name, next.refreshToken)
    await assert.rejects(refresh(name, user.refreshToken), /^Error: 400 .*"invalid_grant"/)
    assert.equal(await gate(next.accessToken), 401)
  })
}

check('A59 a denial fails with the words of the error', async () => {
  const { user, error, info } = await signIn('confidential', { person: { ...bob, decision: 'deny' } })
  assert.equal(user, undefined)
  assert.equal(error, undefined)
  assert.equal(info.message, 'The resource owner or authorization server denied the request.')
})

check('T57 a public client without PKCE is an AuthorizationError', async () => {
  const { error } = await signIn('public without PKCE', { person: undefined })
  assert.equal(error.type, AuthorizationError.name)
  assert.equal(error.code, 'invalid_request')
})

check('T49 a code used twice is a TokenError', async () => {
  const first = await signIn('without PKCE')
  assert.ok(first.user)
  // The strategy forgets its state after one use; a session that still has it stands for an application that does not.
  const { visitor } = first
  const begin = await visitor.fetch({ url: `${application}/?strategy=${encodeURIComponent('without PKCE')}` })
  first.answer.searchParams.set('state', new URL(begin.location).searchParams.get('state'))
  const second = JSON.parse((await visitor.fetch({ url: first.answer })).text)
  assert.equal(second.error.type, TokenError.name)
  assert.equal(second.error.code, 'invalid_grant')
  assert.equal(await gate(first.user.accessToken), 401)
})

check('another state is refused by the strategy', async () => {
  const { user, info } = await signIn('confidential', { tamper: (q) => q.set('state', 'another') })
  assert.equal(user, undefined)
  assert.match(info.message, /state/)
})

check('a wrong secret is a TokenError', async () => {
  const { error } = await signIn('wrong secret')
  assert.equal(error.type, TokenError.name)
  assert.equal(error.code, 'invalid_client')
})

await runChecks(() => server.close())
