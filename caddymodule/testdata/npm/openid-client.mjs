// Drives Gatehouse with openid-client: discovery, every grant that it serves, both ways to authenticate, the answer's
// issuer (RFC 9207), a protected route, introspection, revocation, and errors with their types.

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import * as client from 'openid-client'

import { check, given, runChecks } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, callback, route, ada } = given
const { conf, spa } = given.clients
const methods = [
  ['client_secret_basic', client.ClientSecretBasic],
  ['client_secret_post', client.ClientSecretPost],
]

function discover(id, authentication) {
  const options = { algorithm: 'oauth2', execute: [client.allowInsecureRequests] }
  return client.discovery(new URL(issuer), id, undefined, authentication, options)
}

// walk takes a person from the application to the server and back, and returns all that the exchange needs.
async function walk(config, parameters, person = ada) {
  const pkceCodeVerifier = client.randomPKCECodeVerifier()
  const expectedState = client.randomState()
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: callback,
    state: expectedState,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
    ...parameters,
  })
  return { answer: await new Visitor(issuer).authorize(url, person), checks: { pkceCodeVerifier, expectedState } }
}

async function signIn(config, scope) {
  const { answer, checks } = await walk(config, { scope })
  return client.authorizationCodeGrant(config, answer, checks)
}

const call = (config, token) => client.fetchProtectedResource(config, token, new URL(route), 'GET')

async function refused(promise, error, status) {
  await assert.rejects(promise, (err) => {
    assert.ok(err instanceof client.ResponseBodyError, `${err.name}: ${err.message}`)
    assert.equal(err.error, error)
    assert.equal(err.status, status)
    assert.ok(err.error_description.length > 0)
    return true
  })
}

async function challenged(promise, scheme, parameters) {
  await assert.rejects(promise, (err) => {
    assert.ok(err instanceof client.WWWAuthenticateChallengeError, `${err.name}: ${err.message}`)
    assert.equal(err.status, 401)
    assert.equal(err.cause[0].scheme, scheme)
    for (const [name, value] of Object.entries(parameters)) assert.equal(err.cause[0].parameters[name], value)
    return true
  })
}

async function revoked(config, token) {
  await challenged(call(config, token), 'bearer', {
    error: 'invalid_token',
    error_description: 'The access token was revoked',
  })
}

check('discovery', async () => {
  const server = (await discover(conf.id, client.None())).serverMetadata()
  assert.equal(server.issuer, issuer)
  assert.equal(server.authorization_endpoint, `${issuer}/oauth/authorize`)
  assert.equal(server.token_endpoint, `${issuer}/oauth/token`)
  assert.equal(server.supportsPKCE(), true)
  assert.equal(server.authorization_response_iss_parameter_supported, true)
  for (const grant of ['authorization_code', 'client_credentials', 'refresh_token', 'password']) {
    assert.ok(server.grant_types_supported.includes(grant), grant)
  }
})

for (const [name, method] of methods) {
  check(`${name}: client_credentials`, async () => {
    const config = await discover(conf.id, method(conf.secret))
    const tokens = await client.clientCredentialsGrant(config, { scope: 'public' })
    assert.equal(tokens.token_type, 'bearer') // the library's lower case
    assert.equal(tokens.scope, 'public')
    assert.equal(tokens.expires_in, 7200)
    assert.equal(tokens.refresh_token, undefined)

    const answer = await call(config, tokens.access_token)
    assert.equal(answer.status, 200)
    assert.equal(await answer.text(), 'ok')

    const active = await client.tokenIntrospection(config, tokens.access_token)
    assert.equal(active.active, true)
    assert.equal(active.client_id, conf.id)
    assert.equal(active.sub, conf.id)
    assert.equal(active.scope, 'public')
    assert.equal(active.iss, issuer)

    await client.tokenRevocation(config, tokens.access_token)
    assert.equal((await client.tokenIntrospection(config, tokens.access_token)).active, false)
    await revoked(config, tokens.access_token)
    await client.tokenRevocation(config, tokens.access_token) // again, and no error

    await refused(client.clientCredentialsGrant(config, { scope: 'nonsense' }), 'invalid_scope', 400)
    await refused(client.clientCredentialsGrant(config, { scope: 'trusted' }), 'invalid_scope', 400)
  })

  check(`${name}: authorization_code with PKCE, refresh, introspection, revocation`, async () => {
    const config = await discover(conf.id, method(conf.secret))
    const tokens = await signIn(config, 'public trusted')
    assert.equal(tokens.token_type, 'bearer')
    assert.equal(tokens.scope, 'public trusted')
    assert.equal(tokens.expires_in, 21600)
    assert.equal(await (await call(config, tokens.access_token)).text(), 'ok')

    const active = await client.tokenIntrospection(config, tokens.access_token)
    assert.equal(active.active, true)
    assert.equal(active.sub, ada.id)
    assert.equal(active.client_id, conf.id)

    const next = await client.refreshTokenGrant(config, tokens.refresh_token)
    assert.notEqual(next.refresh_token, tokens.refresh_token)
    assert.equal(next.scope, 'public trusted')
    assert.equal(next.expires_in, 21600)
    const again = await client.refreshTokenGrant(config, tokens.refresh_token) // the answer was lost
    assert.equal(again.refresh_token, next.refresh_token)

    const narrow = await client.refreshTokenGrant(config, next.refresh_token, { scope: 'public' })
    assert.equal(narrow.scope, 'public')
    await refused(client.refreshTokenGrant(config, narrow.refresh_token, { scope: 'orders.read' }), 'invalid_scope', 400)

    await client.tokenRevocation(config, narrow.refresh_token)
    await refused(client.refreshTokenGrant(config, narrow.refresh_token), 'invalid_grant', 400)
    assert.equal((await client.tokenIntrospection(config, tokens.access_token)).active, false)
    await revoked(config, tokens.access_token)
  })

  // To Basic a 401 brings a challenge (RFC 6749 §5.2), which the library reports before it looks at the body.
  check(`${name}: a wrong secret is invalid_client`, async () => {
    const config = await discover(conf.id, method('wrong'))
    for (const attempt of [
      () => client.clientCredentialsGrant(config, { scope: 'public' }),
      () => client.refreshTokenGrant(config, 'nothing'),
      () => client.tokenIntrospection(config, 'nothing'),
      () => client.tokenRevocation(config, 'nothing'),
    ]) {
      if (name === 'client_secret_post') await refused(attempt(), 'invalid_client', 401)
      else await challenged(attempt(), 'basic', {})
    }
  })
}

check('T84 a refresh token used twice ends its family', async () => {
  const config = await discover(conf.id, client.ClientSecretBasic(conf.secret))
  const first = await signIn(config, 'public')
  const second = await client.refreshTokenGrant(config, first.refresh_token)
  const third = await client.refreshTokenGrant(config, second.refresh_token)
  await refused(client.refreshTokenGrant(config, first.refresh_token), 'invalid_grant', 400)
  await refused(client.refreshTokenGrant(config, third.refresh_token), 'invalid_grant', 400)
  await revoked(config, third.access_token)
})

check('T49 a code used twice ends its family', async () => {
  const config = await discover(conf.id, client.ClientSecretBasic(conf.secret))
  const { answer, checks } = await walk(config, { scope: 'public' })
  const tokens = await client.authorizationCodeGrant(config, answer, checks)
  await refused(client.authorizationCodeGrant(config, answer, checks), 'invalid_grant', 400)
  await refused(client.refreshTokenGrant(config, tokens.refresh_token), 'invalid_grant', 400)
  await revoked(config, tokens.access_token)
})

check('T55 a code with another verifier is invalid_grant', async () => {
  const config = await discover(spa.id, client.None())
  const { answer, checks } = await walk(config, { scope: 'public' })
  const wrong = { ...checks, pkceCodeVerifier: client.randomPKCECodeVerifier() }
  await refused(client.authorizationCodeGrant(config, answer, wrong), 'invalid_grant', 400)
})

check('T54 a code with another redirect_uri is invalid_grant', async () => {
  const config = await discover(conf.id, client.ClientSecretBasic(conf.secret))
  const { answer, checks } = await walk(config, { scope: 'public' })
  answer.pathname += '/' // where the library takes the redirect_uri from
  await refused(client.authorizationCodeGrant(config, answer, checks), 'invalid_grant', 400)
})

check('a public client: authorization_code with PKCE, refresh, revocation', async () => {
  const config = await discover(spa.id, client.None())
  const tokens = await signIn(config, 'public trusted')
  assert.equal(tokens.scope, 'public trusted')
  const next = await client.refreshTokenGrant(config, tokens.refresh_token)
  assert.notEqual(next.refresh_token, tokens.refresh_token)
  await client.tokenRevocation(config, next.access_token)
  await refused(client.refreshTokenGrant(config, next.refresh_token), 'invalid_grant', 400)
  await refused(client.clientCredentialsGrant(config), 'unauthorized_client', 400)
  await refused(client.tokenIntrospection(config, next.access_token), 'invalid_client', 401)
})

check('T57 a public client without PKCE is sent back with invalid_request', async () => {
  const config = await discover(spa.id, client.None())
  const url = client.buildAuthorizationUrl(config, { redirect_uri: callback, scope: 'public', state: 'here' })
  const answer = await new Visitor(issuer).authorize(url)
  await assert.rejects(client.authorizationCodeGrant(config, answer, { expectedState: 'here' }), (err) => {
    assert.ok(err instanceof client.AuthorizationResponseError, `${err.name}: ${err.message}`)
    assert.equal(err.error, 'invalid_request')
    return true
  })
})

check('A56 an answer without issuer, and one with another, are refused by the library', async () => {
  const config = await discover(spa.id, client.None())
  for (const tamper of [(q) => q.delete('iss'), (q) => q.set('iss', 'https://attacker.example')]) {
    const { answer, checks } = await walk(config, { scope: 'public' })
    assert.equal(answer.searchParams.get('iss'), issuer)
    tamper(answer.searchParams)
    await assert.rejects(client.authorizationCodeGrant(config, answer, checks), (err) => {
      assert.ok(err instanceof client.ClientError, err.name)
      assert.match(err.cause?.message ?? err.message, /"iss"/)
      return true
    })
  }
})

for (const [name, parameters, person, error] of [
  ['A59 a denial is access_denied', {}, { ...ada, decision: 'deny' }, 'access_denied'],
  ['consent to nothing is access_denied', {}, { ...ada, untick: ['scope_0'] }, 'access_denied'],
  ['prompt=none without a session is login_required', { prompt: 'none' }, undefined, 'login_required'],
  ['A50 an unknown scope is invalid_scope', { scope: 'nonsense' }, undefined, 'invalid_scope'],
  ['A47 another response_type is unsupported', { response_type: 'token' }, undefined, 'unsupported_response_type'],
]) {
  check(name, async () => {
    const config = await discover(spa.id, client.None())
    const { answer, checks } = await walk(config, { scope: 'public', ...parameters }, person)
    await assert.rejects(client.authorizationCodeGrant(config, answer, checks), (err) => {
      assert.ok(err instanceof client.AuthorizationResponseError, `${err.name}: ${err.message}`)
      assert.equal(err.error, error)
      assert.ok(err.error_description.length > 0)
      return true
    })
  })
}

check('T69 password, and a wrong one', async () => {
  const config = await discover(conf.id, client.ClientSecretPost(conf.secret))
  const form = { username: ada.email, password: ada.password, scope: 'public trusted' }
  const tokens = await client.genericGrantRequest(config, 'password', form)
  assert.equal(tokens.expires_in, 2419200)
  assert.equal(tokens.scope, 'public trusted')
  assert.equal(tokens.refresh_token, undefined)
  assert.equal((await client.tokenIntrospection(config, tokens.access_token)).sub, ada.id)
  await refused(client.genericGrantRequest(config, 'password', { ...form, password: 'wrong password' }), 'invalid_grant', 400)
})

await runChecks()
