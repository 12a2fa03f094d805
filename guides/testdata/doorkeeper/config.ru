require_relative "service"

run Service
