"""SCIM 2.0 (RFC 7643, 7644): identity providers create, change and remove users and groups.

routes        the endpoints below /scim/v2
resources     users and groups as SCIM shows them, and what a request says about them
patch         the operations of PATCH, in the dialects of Okta and of Entra ID
"""
