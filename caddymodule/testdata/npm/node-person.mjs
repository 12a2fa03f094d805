// A person at node oidc-provider, whose pages are not ours: they load a font that is not there.

import { given } from './checks.mjs'

// theirs is what the console says of the provider's pages, and of requests that are refused.
export const theirs = /fonts\.googleapis|status of 40[013]|ERR_FAILED/

// atProvider waits until a page is at the provider.
export async function atProvider(page) {
  await page.waitForURL((url) => given.providers.includes(url.origin))
  await page.waitForLoadState()
}

// without keeps a browser from asking for the provider's font.
export const without = (context) => context.route(/fonts\.googleapis/, (route) => route.abort())

// signInAs types a name at the provider, and lets us know it. Whoever is known lets us know already.
export async function signInAs(page, name, { known = false } = {}) {
  await atProvider(page)
  await page.locator('[name=login]').fill(name)
  await page.locator('[name=password]').fill('anything')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  if (!known) await page.getByRole('button', { name: 'Continue' }).click()
}

// signOutThere says yes at the provider.
export async function signOutThere(page) {
  await atProvider(page)
  await page.getByRole('button', { name: 'Yes, sign me out' }).click()
}
