// A script is a list of checks. What it prints is the Test Anything Protocol (version 13): first how many checks there
// are, then a line for each, so that the Go test notices one that did not run.

import { readFileSync } from 'node:fs'

// What the Go test says about the server, its clients and its users: one JSON object on standard input.
export const given = JSON.parse(readFileSync(0, 'utf8'))

const checks = []

// check adds one. The first that fails does not keep the others from running.
export function check(name, run) {
  checks.push({ name, run })
}

// runChecks runs them in order, then closes what they have opened.
export async function runChecks(close = async () => {}) {
  console.log(`1..${checks.length}`)
  for (const [i, { name, run }] of checks.entries()) {
    try {
      await run()
      console.log(`ok ${i + 1} - ${name}`)
    } catch (err) {
      console.log(`not ok ${i + 1} - ${name}`)
      for (const line of explain(err).split('\n')) console.log(`# ${line}`)
    }
  }
  await close()
}

function explain(err) {
  if (!(err instanceof Error)) return String(err)
  return err.cause instanceof Error ? `${err.stack}\ncaused by ${explain(err.cause)}` : err.stack
}
