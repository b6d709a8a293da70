# SPDX-License-Identifier: Apache-2.0
"""The dashboard in the terminal: it reads a recording, finished or growing, and never needs privileges.

`worker` follows the file in a thread and posts immutable snapshots; `columns`, `ledger`, `window`, `aggregate`,
`detail` turn records into them (pure); screens and widgets draw what they are given.
"""
