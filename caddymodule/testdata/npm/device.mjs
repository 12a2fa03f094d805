// Signs a device in (RFC 8628) with openid-client, while a person decides on the pages.

import './webcrypto.mjs'

import assert from 'node:assert/strict'
import * as client from 'openid-client'

import { check, given, runChecks } from './checks.mjs'

const { issuer, decide } = given

async function begun(scope) {
  const config = await client.discovery(new URL(issuer), 'tv', undefined, client.None(), { execute: [client.allowInsecureRequests] })
  const device = await client.initiateDeviceAuthorization(config, { scope })
  assert.equal(device.verification_uri, `${issuer}/oauth/device`)
  assert.equal(device.verification_uri_complete, `${issuer}/oauth/device?user_code=${device.user_code}`)
  assert.equal(device.expires_in, 600)
  assert.equal(device.interval, 5)
  return { config, device }
}

async function decided(device, decision) {
  const answer = await fetch(`${decide}?${new URLSearchParams({ code: device.user_code, decision })}`)
  assert.equal(answer.status, 200)
}

check('allowed', async () => {
  const { config, device } = await begun('openid public')
  await decided(device, 'allow')
  const tokens = await client.pollDeviceAuthorizationGrant(config, { ...device, interval: 0.01 })
  assert.equal(tokens.token_type, 'bearer')
  assert.equal(tokens.claims().aud, 'tv')
  const person = await client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub)
  assert.equal(person.sub, tokens.claims().sub)
})

check('denied', async () => {
  const { config, device } = await begun('public')
  await decided(device, 'deny')
  await assert.rejects(client.pollDeviceAuthorizationGrant(config, { ...device, interval: 0.01 }), (err) => {
    assert.equal(err.error, 'access_denied')
    return true
  })
})

await runChecks()
