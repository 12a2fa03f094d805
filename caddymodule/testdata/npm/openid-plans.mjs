// The modules of five plans of the OpenID Foundation's conformance suite, as our own checks: Config OP, Basic OP, Form Post OP,
// RP-Initiated Logout OP and Back-Channel OP.

import { given, runChecks } from './checks.mjs'
import { launch } from './chromium.mjs'
import { Person, stop, Walker } from './openid-application.mjs'
import { backchannelModules, configModules, logoutModules } from './openid-logout.mjs'
import { modulesOf } from './openid-modules.mjs'

const browser = await launch()
const spectator = () => Person.with(browser)

// The plan without a browser is through at once, so that the half minute that each plan waits for is nearly one.
const basic = modulesOf('basic', { someone: async () => new Walker(given.issuer), spectator })
const formPost = modulesOf('formpost', { mode: 'form_post', someone: spectator, spectator })
configModules('config')
logoutModules('logout', spectator)
backchannelModules('backchannel', spectator)
basic.lasting()
formPost.lasting()

await runChecks(async () => {
  await browser.close()
  stop()
})
