// Drives Gatehouse with oauth4webapi, which leaves every step to its user: server and resource metadata, the answer of
// the authorization endpoint, each grant, and access tokens as a resource server checks them (RFC 9068).

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import * as oauth from 'oauth4webapi'

import { check, given, runChecks } from './checks.mjs'
import { Visitor } from './visitor.mjs'

const { issuer, callback, route, ada } = given
const { conf, spa } = given.clients
const plain = { [oauth.allowInsecureRequests]: true }

async function discover() {
  const response = await oauth.discoveryRequest(new URL(issuer), { algorithm: 'oauth2', ...plain })
  return oauth.processDiscoveryResponse(new URL(issuer), response)
}

const as = await discover()
const web = { client_id: conf.id }
const browser = { client_id: spa.id }

// walk returns the answer of the authorization endpoint, validated, with the verifier of its challenge.
async function walk(client, scope, person = ada) {
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  const url = new URL(as.authorization_endpoint)
  url.search = new URLSearchParams({
    client_id: client.client_id, redirect_uri: callback, response_type: 'code', scope, state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
  })
  const answer = await new Visitor(issuer).authorize(url, person)
  return { parameters: oauth.validateAuthResponse(as, client, answer, state), answer, state, verifier }
}

async function exchange(client, authentication, { parameters, verifier }) {
  const response = await oauth.authorizationCodeGrantRequest(as, client, authentication, parameters, callback, verifier, plain)
  return oauth.processAuthorizationCodeResponse(as, client, response)
}

async function refresh(client, authentication, token) {
  const response = await oauth.refreshTokenGrantRequest(as, client, authentication, token, plain)
  return oauth.processRefreshTokenResponse(as, client, response)
}

async function introspect(token) {
  const response = await oauth.introspectionRequest(as, web, oauth.ClientSecretBasic(conf.secret), token, plain)
  return oauth.processIntrospectionResponse(as, web, response)
}

async function refused(promise, error, status) {
  await assert.rejects(promise, (err) => {
    assert.ok(err instanceof oauth.ResponseBodyError, `${err.name}: ${err.message}`)
    assert.equal(err.code, oauth.RESPONSE_BODY_ERROR)
    assert.equal(err.error, error)
    assert.equal(err.status, status)
    return true
  })
}

check('server metadata', async () => {
  assert.equal(as.issuer, issuer)
  assert.deepEqual(as.code_challenge_methods_supported, ['S256'])
  assert.deepEqual(as.response_types_supported, ['code'])
  assert.equal(as.authorization_response_iss_parameter_supported, true)
})

check('protected resource metadata', async () => {
  const response = await oauth.resourceDiscoveryRequest(new URL(issuer), plain)
  const resource = await oauth.processResourceDiscoveryResponse(new URL(issuer), response)
  assert.deepEqual(resource.authorization_servers, [issuer])
})

for (const [name, client, authentication] of [
  ['client_secret_basic', web, oauth.ClientSecretBasic(conf.secret)],
  ['client_secret_post', web, oauth.ClientSecretPost(conf.secret)],
  ['none', browser, oauth.None()],
]) {
  check(`${name}: authorization_code with PKCE, refresh, revocation`, async () => {
    const tokens = await exchange(client, authentication, await walk(client, 'public trusted'))
    assert.equal(tokens.scope, 'public trusted')
    assert.equal(tokens.expires_in, 21600)
    assert.equal((await introspect(tokens.access_token)).active, name !== 'none') // of another client's it says nothing

    const next = await refresh(client, authentication, tokens.refresh_token)
    assert.notEqual(next.refresh_token, tokens.refresh_token)
    assert.equal((await refresh(client, authentication, tokens.refresh_token)).refresh_token, next.refresh_token)

    const revocation = await oauth.revocationRequest(as, client, authentication, next.refresh_token, plain)
    assert.equal(await oauth.processRevocationResponse(revocation), undefined)
    await refused(refresh(client, authentication, next.refresh_token), 'invalid_grant', 400)
    const answer = await fetch(route, { headers: { authorization: `Bearer ${next.access_token}` } })
    assert.equal(answer.status, 401)
  })
}

check('client_credentials, and the scope that a server token cannot have', async () => {
  const ask = async (scope) => {
    const form = new URLSearchParams({ scope })
    const response = await oauth.clientCredentialsGrantRequest(as, web, oauth.ClientSecretBasic(conf.secret), form, plain)
    return oauth.processClientCredentialsResponse(as, web, response)
  }
  const tokens = await ask('public')
  assert.equal(tokens.expires_in, 7200)
  assert.equal(tokens.refresh_token, undefined)
  await refused(ask('trusted'), 'invalid_scope', 400)
})

check('password', async () => {
  const form = new URLSearchParams({ email: ada.email, password: ada.password, scope: 'trusted' })
  const authentication = oauth.ClientSecretPost(conf.secret)
  const response = await oauth.genericTokenEndpointRequest(as, web, authentication, 'password', form, plain)
  const tokens = await oauth.processGenericTokenEndpointResponse(as, web, response)
  assert.equal(tokens.scope, 'trusted')
  assert.equal(tokens.expires_in, 2419200)
})

check('a user token and a server token are access tokens of RFC 9068', async () => {
  const own = await exchange(web, oauth.ClientSecretBasic(conf.secret), await walk(web, 'public trusted'))
  const claims = await validate(own.access_token)
  assert.equal(claims.sub, ada.id)
  assert.equal(claims.client_id, conf.id)
  assert.equal(claims.org, ada.organisation)
  assert.equal(claims.role, ada.role)
  assert.ok(claims.sid && claims.auth_time <= claims.iat)

  const form = new URLSearchParams()
  const response = await oauth.clientCredentialsGrantRequest(as, web, oauth.ClientSecretBasic(conf.secret), form, plain)
  const server = await validate((await oauth.processClientCredentialsResponse(as, web, response)).access_token)
  assert.equal(server.sub, conf.id)
  assert.equal(server.sid, undefined)
})

function validate(token) {
  const request = new Request(route, { headers: { authorization: `Bearer ${token}` } })
  return oauth.validateJwtAccessToken(as, request, issuer, plain)
}

check('A66 the answer for one state is not taken for another', async () => {
  const { answer } = await walk(browser, 'public')
  assert.throws(() => oauth.validateAuthResponse(as, browser, answer, oauth.generateRandomState()), /state/)
})

check('A56 an answer without issuer, and one with another, are refused by the library', async () => {
  for (const tamper of [(q) => q.delete('iss'), (q) => q.set('iss', 'https://attacker.example')]) {
    const { answer, state } = await walk(browser, 'public')
    tamper(answer.searchParams)
    assert.throws(() => oauth.validateAuthResponse(as, browser, answer, state), /"iss"/)
  }
})

check('A59 a denial is access_denied, with issuer and state', async () => {
  await assert.rejects(walk(browser, 'public', { ...ada, decision: 'deny' }), (err) => {
    assert.ok(err instanceof oauth.AuthorizationResponseError, `${err.name}: ${err.message}`)
    assert.equal(err.error, 'access_denied')
    assert.equal(err.error_description, 'The resource owner or authorization server denied the request.')
    return true
  })
})

check('A67 an unticked scope is not granted', async () => {
  const tokens = await exchange(browser, oauth.None(), await walk(browser, 'public trusted', { ...ada, untick: ['scope_1'] }))
  assert.equal(tokens.scope, 'public')
})

check('T49 a code used twice is invalid_grant', async () => {
  const walked = await walk(browser, 'public')
  const tokens = await exchange(browser, oauth.None(), walked)
  await refused(exchange(browser, oauth.None(), walked), 'invalid_grant', 400)
  await refused(refresh(browser, oauth.None(), tokens.refresh_token), 'invalid_grant', 400)
})

check('T53 a code of another client is invalid_grant, and still good for its own', async () => {
  const walked = await walk(browser, 'public')
  await refused(exchange(web, oauth.ClientSecretBasic(conf.secret), walked), 'invalid_grant', 400)
  assert.equal((await exchange(browser, oauth.None(), walked)).scope, 'public')
})

check('T82 a refresh token of another client is invalid_grant, and still good for its own', async () => {
  const tokens = await exchange(browser, oauth.None(), await walk(browser, 'public'))
  await refused(refresh(web, oauth.ClientSecretBasic(conf.secret), tokens.refresh_token), 'invalid_grant', 400)
  assert.equal((await refresh(browser, oauth.None(), tokens.refresh_token)).scope, 'public')
})

check('an unknown client and a wrong secret are invalid_client', async () => {
  const unknown = { client_id: 'nobody' }
  await refused(refresh(unknown, oauth.None(), 'nothing'), 'invalid_client', 401)
  await refused(refresh(web, oauth.ClientSecretPost('wrong'), 'nothing'), 'invalid_client', 401)
  await assert.rejects(refresh(web, oauth.ClientSecretBasic('wrong'), 'nothing'), (err) => {
    assert.ok(err instanceof oauth.WWWAuthenticateChallengeError, `${err.name}: ${err.message}`)
    assert.equal(err.status, 401)
    assert.equal(err.cause[0].scheme, 'basic')
    return true
  })
})

await runChecks()
