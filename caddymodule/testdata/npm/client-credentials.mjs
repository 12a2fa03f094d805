// Drives Gatehouse with openid-client: discovery, both ways to authenticate, a protected route, introspection,
// revocation, and errors with their types.
//
//	node client-credentials.mjs ISSUER CLIENT_ID CLIENT_SECRET PROTECTED_URL

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import * as client from 'openid-client'

const [issuer, id, secret, route] = process.argv.slice(2)
const options = { algorithm: 'oauth2', execute: [client.allowInsecureRequests] }

async function discover(authentication) {
  const config = await client.discovery(new URL(issuer), id, undefined, authentication, options)
  const server = config.serverMetadata()
  assert.equal(server.issuer, issuer)
  assert.equal(server.token_endpoint, `${issuer}/oauth/token`)
  return config
}

async function call(config, token) {
  return client.fetchProtectedResource(config, token, new URL(route), 'GET')
}

async function refused(promise, error, status) {
  await assert.rejects(promise, (err) => {
    assert.ok(err instanceof client.ResponseBodyError, `${err.name}: ${err.message}`)
    assert.equal(err.error, error)
    assert.equal(err.status, status)
    assert.ok(err.error_description.length > 0)
    return true
  })
}

for (const [name, method] of [
  ['client_secret_basic', client.ClientSecretBasic],
  ['client_secret_post', client.ClientSecretPost],
]) {
  const config = await discover(method(secret))
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
  assert.equal(active.client_id, id)
  assert.equal(active.sub, id)
  assert.equal(active.scope, 'public')
  assert.equal(active.iss, issuer)

  await client.tokenRevocation(config, tokens.access_token)
  assert.equal((await client.tokenIntrospection(config, tokens.access_token)).active, false)
  await assert.rejects(call(config, tokens.access_token), (err) => {
    assert.ok(err instanceof client.WWWAuthenticateChallengeError, `${err.name}: ${err.message}`)
    assert.equal(err.status, 401)
    assert.equal(err.cause[0].scheme, 'bearer')
    assert.equal(err.cause[0].parameters.error, 'invalid_token')
    assert.equal(err.cause[0].parameters.error_description, 'The access token was revoked')
    return true
  })
  await client.tokenRevocation(config, tokens.access_token) // again, and no error

  await refused(client.clientCredentialsGrant(config, { scope: 'nonsense' }), 'invalid_scope', 400)
  await refused(client.clientCredentialsGrant(config, { scope: 'trusted' }), 'invalid_scope', 400)

  // To Basic a 401 brings a challenge (RFC 6749 §5.2), which the library reports before it looks at the body.
  const wrong = await discover(method('wrong'))
  for (const attempt of [
    () => client.clientCredentialsGrant(wrong, { scope: 'public' }),
    () => client.tokenIntrospection(wrong, tokens.access_token),
    () => client.tokenRevocation(wrong, tokens.access_token),
  ]) {
    if (name === 'client_secret_post') {
      await refused(attempt(), 'invalid_client', 401)
      continue
    }
    await assert.rejects(attempt(), (err) => {
      assert.ok(err instanceof client.WWWAuthenticateChallengeError, `${err.name}: ${err.message}`)
      assert.equal(err.status, 401)
      assert.equal(err.cause[0].scheme, 'basic')
      return true
    })
  }
  console.log(`${name}: ok`)
}
console.log('all done')
