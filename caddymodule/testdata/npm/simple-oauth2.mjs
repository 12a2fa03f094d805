// Drives Gatehouse with simple-oauth2: its three grants, with credentials in the header (form-encoded and raw) and in the
// body, and bodies as forms and as JSON.

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { AuthorizationCode, ClientCredentials, ResourceOwnerPassword } from 'simple-oauth2'

import { check, given, runChecks } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, callback, route, ada } = given
const { conf } = given.clients

const settings = (options, secret = conf.secret) => ({
  client: { id: conf.id, secret },
  auth: { tokenHost: issuer },
  options,
})

// The library makes no challenge of its own, and sends what it is given.
function pkce() {
  const verifier = randomBytes(32).toString('base64url')
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') }
}

async function walk(flow, person = ada) {
  const { verifier, challenge } = pkce()
  const state = randomBytes(16).toString('hex')
  const url = flow.authorizeURL({
    redirect_uri: callback, scope: ['public', 'trusted'], state,
    code_challenge: challenge, code_challenge_method: 'S256',
  })
  const answer = (await new Visitor(issuer).authorize(url, person)).searchParams
  assert.equal(answer.get('state'), state)
  assert.equal(answer.get('iss'), issuer)
  return { code: answer.get('code'), redirect_uri: callback, code_verifier: verifier }
}

// refused expects the library's error, whose data holds the body.
async function refused(promise, error, status) {
  await assert.rejects(promise, (err) => {
    assert.equal(err.isBoom, true, err.stack)
    assert.equal(err.output.statusCode, status)
    assert.equal(err.data.payload.error, error)
    assert.ok(err.data.payload.error_description.length > 0)
    return true
  })
}

async function gate(token) {
  const answer = await fetch(route, { headers: { authorization: `Bearer ${token.token.access_token}` } })
  return answer.status
}

for (const [name, options] of [
  ['header, form-encoded', { authorizationMethod: 'header', credentialsEncodingMode: 'strict' }],
  ['header, raw', { authorizationMethod: 'header', credentialsEncodingMode: 'loose' }],
  ['body', { authorizationMethod: 'body' }],
  ['header, JSON', { authorizationMethod: 'header', bodyFormat: 'json' }],
  ['body, JSON', { authorizationMethod: 'body', bodyFormat: 'json' }],
]) {
  check(`${name}: authorization_code with PKCE, refresh, revocation`, async () => {
    const flow = new AuthorizationCode(settings(options))
    const tokens = await flow.getToken(await walk(flow))
    assert.equal(tokens.token.token_type, 'Bearer')
    assert.equal(tokens.token.scope, 'public trusted')
    assert.equal(tokens.expired(), false)
    assert.equal(tokens.expired(21601), true)
    assert.equal(await gate(tokens), 200)

    const next = await tokens.refresh()
    assert.notEqual(next.token.refresh_token, tokens.token.refresh_token)
    assert.equal((await tokens.refresh()).token.refresh_token, next.token.refresh_token)
    assert.equal((await next.refresh({ scope: 'public' })).token.scope, 'public')

    await next.revokeAll()
    await refused(next.refresh(), 'invalid_grant', 400)
    assert.equal(await gate(tokens), 401)
  })

  check(`${name}: client_credentials`, async () => {
    const flow = new ClientCredentials(settings(options))
    const tokens = await flow.getToken({ scope: 'public' })
    assert.equal(tokens.token.scope, 'public')
    assert.equal(tokens.token.refresh_token, undefined)
    await tokens.revoke('access_token')
    assert.equal(await gate(tokens), 401)
    await refused(flow.getToken({ scope: 'trusted' }), 'invalid_scope', 400)
  })

  check(`${name}: password`, async () => {
    const flow = new ResourceOwnerPassword(settings(options))
    const tokens = await flow.getToken({ username: ada.email, password: ada.password, scope: 'trusted' })
    assert.equal(tokens.token.expires_in, 2419200)
    assert.equal(await gate(tokens), 200)
    await refused(flow.getToken({ username: ada.email, password: 'wrong password' }), 'invalid_grant', 400)
  })

  check(`${name}: a wrong secret is invalid_client`, async () => {
    await refused(new ClientCredentials(settings(options, 'wrong')).getToken({}), 'invalid_client', 401)
  })
}

check('T49 a code used twice is invalid_grant', async () => {
  const flow = new AuthorizationCode(settings({}))
  const walked = await walk(flow)
  const tokens = await flow.getToken(walked)
  await refused(flow.getToken(walked), 'invalid_grant', 400)
  await refused(tokens.refresh(), 'invalid_grant', 400)
})

check('A59 a denial brings no code', async () => {
  const flow = new AuthorizationCode(settings({}))
  const url = flow.authorizeURL({ redirect_uri: callback, scope: 'public', state: 'here', prompt: 'consent' })
  const answer = (await new Visitor(issuer).authorize(url, { ...ada, decision: 'deny' })).searchParams
  assert.equal(answer.get('error'), 'access_denied')
  assert.equal(answer.get('state'), 'here')
  assert.equal(answer.get('code'), null)
})

await runChecks()
