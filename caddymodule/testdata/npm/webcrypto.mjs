// Node 18, which Debian 12 has, keeps the Web Crypto API out of the global scope, where openid-client looks for it.
import { webcrypto } from 'node:crypto'

globalThis.crypto ??= webcrypto
