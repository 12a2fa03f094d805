// Exchanges a token for the next service's (RFC 8693) with oauth4webapi and openid-client.

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import * as oauth from 'oauth4webapi'
import * as client from 'openid-client'

import { check, given, runChecks } from './checks.mjs'

const { issuer, token, secret, audience } = given
const grant = 'urn:ietf:params:oauth:grant-type:token-exchange'
const accessToken = 'urn:ietf:params:oauth:token-type:access_token'
const parameters = { subject_token: token, subject_token_type: accessToken, requested_token_type: accessToken, scope: 'read' }

// exchanged looks at an answer as a service does.
function exchanged(answer) {
  assert.equal(answer.issued_token_type, accessToken)
  assert.equal(answer.token_type, 'bearer')
  assert.equal(answer.scope, 'read')
  assert.ok(answer.expires_in > 0)
  assert.equal(answer.refresh_token, undefined)
  const claims = JSON.parse(Buffer.from(answer.access_token.split('.')[1], 'base64url').toString())
  assert.equal(claims.aud, audience)
  assert.deepEqual(claims.act, { sub: 'orders', client_id: 'orders' })
}

check('oauth4webapi', async () => {
  const options = { [oauth.allowInsecureRequests]: true }
  const url = new URL(issuer)
  const server = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, { algorithm: 'oauth2', ...options }))
  assert.ok(server.grant_types_supported.includes(grant))
  const orders = { client_id: 'orders' }
  const asked = (more) =>
    oauth.genericTokenEndpointRequest(server, orders, oauth.ClientSecretBasic(secret), grant, new URLSearchParams({ ...parameters, ...more }), options)
  exchanged(await oauth.processGenericTokenEndpointResponse(server, orders, await asked({ audience })))
  await assert.rejects(async () => oauth.processGenericTokenEndpointResponse(server, orders, await asked({ audience: 'nobody' })), (err) => {
    assert.equal(err.error, 'invalid_target')
    return true
  })
})

check('openid-client', async () => {
  const options = { algorithm: 'oauth2', execute: [client.allowInsecureRequests] }
  const config = await client.discovery(new URL(issuer), 'orders', undefined, client.ClientSecretPost(secret), options)
  exchanged(await client.genericGrantRequest(config, grant, { ...parameters, resource: audience }))
})

await runChecks()
