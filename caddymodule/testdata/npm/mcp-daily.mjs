// An agent that connects to an MCP server once a day. The Go test owns the server's clock.

import assert from 'node:assert/strict'

import { check, given, runChecks } from './checks.mjs'
import { Agent, connect, textOf } from './mcp-agent.mjs'

check('some days, and one more sign-in when the refresh token has ended', async () => {
  const agent = new Agent({ id: 'daily' })
  const refreshTokens = new Set()
  for (let day = 0; day < 5; day++) {
    const { client } = await connect(agent)
    await textOf(client, 'whoami')
    assert.equal(agent.visits, day < 3 ? 1 : 2, `day ${day}`)
    refreshTokens.add(agent.saved.refresh_token)
    await client.close()
    const { status } = await fetch(given.nextDay, { method: 'POST' })
    assert.equal(status, 204)
  }
  assert.equal(refreshTokens.size, 5)
})

await runChecks()
process.exit(0) // a check that failed may have left a connection behind
